# SPDX-License-Identifier: Apache-2.0
"""lakehand drain and instances, through the real API."""

import json
from pathlib import Path

import pytest

from lakehand.domain.operations import INSTANCE_STATE, InstanceId, InstanceState
from lakehand.store import SqlStore
from tests.cli.conftest import Run, answer
from tests.kit.sentences import Sentences


def test_an_instance_is_drained_and_taken_back(lakehand: Run, sentences: Sentences) -> None:
    drained = lakehand("drain", "--wait", "--timeout", "5")

    assert drained.exit_code == 0, drained.output
    sentences.check("an instance is drained", drained.stdout.splitlines()[-1], instance="here")
    assert answer(lakehand("drain", "--undo", "--json"))["state"] == "serving"


def test_an_instance_is_found_by_its_home(type_in: Run, url: str, tmp_path: Path) -> None:
    (tmp_path / "address.json").write_text(json.dumps({"url": url, "pid": 1}))

    assert answer(type_in("drain", "--home", tmp_path, "--json"))["by"] == "anonymous"


def test_a_home_without_a_running_instance_is_named(type_in: Run, tmp_path: Path, sentences: Sentences) -> None:
    refused = type_in("drain", "--home", tmp_path)

    assert refused.exit_code == 1
    found = {"home": tmp_path, "file": tmp_path / "address.json"}
    sentences.check("no instance with the home", refused.stderr.strip(), **found)


def test_the_token_is_read_from_a_file(
    lakehand: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sentences: Sentences
) -> None:
    secret = answer(lakehand("tokens", "create", "root", "--role", "admin", "--json"))["secret"]
    file = tmp_path / "token"
    file.write_text(f"{secret}\n")

    assert lakehand("drain").exit_code == 1
    assert answer(lakehand("drain", "--token-file", file, "--json"))["by"] == "root"
    monkeypatch.setenv("LAKEHAND_TOKEN_FILE", str(file))
    assert answer(lakehand("drain", "--undo", "--json"))["state"] == "serving"
    refused = lakehand("drain", "--token-file", tmp_path / "missing").stderr.strip()
    sentences.check("no token file", refused, file=tmp_path / "missing")


def test_instances_are_listed_with_their_states(lakehand: Run, store: SqlStore) -> None:
    now = store.clock.now()
    for name, detail in {"old": {}, "new": {INSTANCE_STATE: str(InstanceState.DRAINING)}}.items():
        store.instances.heartbeat(InstanceId(name), host="h", version="1", detail=detail, now=now)

    shown = {line.split()[0]: line.split()[3] for line in lakehand("instances").stdout.splitlines()[1:]}
    assert shown == {"old": "–", "new": "draining"}
