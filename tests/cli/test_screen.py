# SPDX-License-Identifier: Apache-2.0
"""Following a document: what is printed while it changes, on a terminal and elsewhere."""

import json

import pytest
from rich.text import Text

from lakehand.cli.screen import follow

STEPS = ["pending", "running", "running", "succeeded"]


def follow_steps(*, as_json: bool) -> str:
    steps = iter(STEPS)

    def look() -> tuple[str, bool]:
        step = next(steps)
        return step, step == "succeeded"

    return str(follow(look, Text, as_json=as_json, interval=0))


def test_without_a_terminal_each_change_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert follow_steps(as_json=False) == "succeeded"

    assert capsys.readouterr().out.split() == ["pending", "running", "succeeded"]


def test_programs_get_one_document_per_change(capsys: pytest.CaptureFixture[str]) -> None:
    follow_steps(as_json=True)

    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert printed == ["pending", "running", "succeeded"]


def test_on_a_terminal_the_last_state_stays(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")

    follow_steps(as_json=False)

    assert "succeeded" in capsys.readouterr().out
