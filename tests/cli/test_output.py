# SPDX-License-Identifier: Apache-2.0
"""Following a document, with and without a terminal, and times as text."""

import json
from datetime import datetime, timezone

import pytest
from rich.text import Text

from lakehand.domain.texts import span
from lakehand.output import follow, took, when

NOON = datetime(2026, 11, 15, 12, 0, tzinfo=timezone.utc)
STEPS = ["pending", "running", "running", "succeeded"]


def follow_steps(*, as_json: bool) -> str:
    steps = iter(STEPS)

    def fetch() -> tuple[str, bool]:
        step = next(steps)
        return step, step == "succeeded"

    return str(follow(fetch, Text, as_json=as_json, interval=0))


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


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.34, "340 ms"), (2.25, "2.2 s"), (90, "90 s"), (150, "2 min"), (7200, "2 h"), (3 * 86400, "3 d")],
)
def test_a_span_is_printed_in_the_unit_that_fits(seconds: float, text: str) -> None:
    assert span(seconds) == text


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (None, "–"),
        ("2026-11-15T11:59:48.000Z", "12 s ago"),
        ("2026-11-15T12:10:00.000Z", "in 10 min"),
        ("2026-11-15T12:00:00.400Z", "now"),
    ],
)
def test_a_time_is_printed_relative_to_now(moment: str | None, text: str) -> None:
    assert when(moment, NOON) == text


def test_a_running_operation_has_taken_until_now() -> None:
    assert took("2026-11-15T11:59:00.000Z", None, NOON) == "60 s"
    assert took("2026-11-15T11:59:00.000Z", "2026-11-15T11:59:05.000Z", NOON) == "5.0 s"
    assert took(None, None) == "–"
