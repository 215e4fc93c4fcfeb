# SPDX-License-Identifier: Apache-2.0
"""lakehand tokens and audit: through the service, and on the database itself."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lakehand.store import SqlStore
from tests.cli.conftest import Run, answer
from tests.kit.sentences import Sentences
from tests.rest.parts import context_over, serving, with_security

ADMIN = ("--token", "secret")


@pytest.fixture
def guarded(store: SqlStore) -> Iterator[tuple[str, ...]]:
    with serving(with_security(context_over(store), tokens={"ann": "secret"})) as client:
        yield ("--url", str(client.base_url))


def test_a_token_is_created_used_listed_and_revoked(
    type_in: Run, guarded: tuple[str, ...], sentences: Sentences
) -> None:
    made = answer(
        type_in("tokens", "create", "airflow", "--role", "operator", "--owner", "sales", "--expires", "90d",
                *guarded, *ADMIN, "--json")
    )  # fmt: skip
    mine = ("--token", made["secret"])

    assert (made["name"], made["role"], made["owner"]) == ("airflow", "operator", "sales")
    assert made["expires_at"]
    assert answer(type_in("tables", "list", *guarded, *mine, "--json"))["items"] == []
    refused = type_in("tokens", "list", *guarded, *mine)
    assert refused.exit_code == 1
    found = {"name": "airflow", "role": "operator", "needed": "admin"}
    sentences.check("a role that may not", refused.stderr.strip(), **found)
    [listed] = answer(type_in("tokens", "list", *guarded, *ADMIN, "--json"))["items"]
    assert "secret" not in listed
    shown = type_in("tokens", "revoke", str(made["id"]), *guarded, *ADMIN)
    sentences.check("a token is revoked", shown.stdout.strip(), token=made["id"])
    assert "revoked" in type_in("tokens", "list", *guarded, *ADMIN).stdout


def test_the_secret_is_printed_on_a_line_of_its_own(type_in: Run, guarded: tuple[str, ...]) -> None:
    lines = type_in("tokens", "create", "eve", *guarded, *ADMIN).stdout.splitlines()

    assert "viewer" in lines[0]
    assert lines[1].startswith("lakehand_")
    assert " " not in lines[1].strip()


def test_a_role_that_there_is_not_is_refused(type_in: Run, guarded: tuple[str, ...]) -> None:
    result = type_in("tokens", "create", "eve", "--role", "king", *guarded, *ADMIN)

    assert result.exit_code == 1
    assert "viewer, operator, admin" in result.stderr


def test_the_first_token_is_made_without_a_service(type_in: Run, tmp_path: Path, sentences: Sentences) -> None:
    here = ("--local", "--home", str(tmp_path / "home"))
    sentences.check("no tokens", type_in("tokens", "list", *here).stdout.strip())

    made = answer(type_in("tokens", "create", "root", "--role", "admin", *here, "--json"))

    assert made["secret"].startswith("lakehand_")
    [listed] = answer(type_in("tokens", "list", *here, "--json"))["items"]
    assert listed == {name: value for name, value in made.items() if name != "secret"}
    assert answer(type_in("tokens", "revoke", str(made["id"]), *here, "--json"))["revoked_at"]


def test_local_and_remote_tokens_have_the_same_document(type_in: Run, guarded: tuple[str, ...], tmp_path: Path) -> None:
    here = answer(type_in("tokens", "create", "a", "--local", "--home", str(tmp_path / "home"), "--json"))
    there = answer(type_in("tokens", "create", "a", *guarded, *ADMIN, "--json"))

    assert list(here) == list(there)


def test_the_audit_trail_is_listed_and_filtered(type_in: Run, guarded: tuple[str, ...]) -> None:
    type_in("tables", "add", "/data/trips", "--format", "hudi", *guarded, *ADMIN)
    type_in("tables", "pause", "trips", *guarded, *ADMIN)

    document = answer(type_in("audit", "--table", "trips", *guarded, *ADMIN, "--json"))
    text = type_in("audit", *guarded, *ADMIN).stdout

    [entry] = document["items"]
    assert (entry["caller"], entry["action"], entry["answer"]) == ("ann", "table.pause", "ok")
    assert (entry["before"], entry["after"]) == ({"paused": False}, {"paused": True})
    assert "table.add" in text
    assert "table.pause" in text
    assert "127.0.0.1 rest" in text
