# SPDX-License-Identifier: Apache-2.0
"""Long reasons are cut in lists, and kept whole where one thing is shown."""

from typing import Any

import pytest
from rich.console import RenderableType

from lakehand.cli.views import brief, operation_view, operations_view
from lakehand.output import SafeConsole

LONG = "java.lang.IllegalStateException: the plan is gone. " + "Caused by: something below it. " * 40
TABLE = {"id": 1, "db_name": "", "table_name": "trips", "location": "/lake/trips"}


def an_operation(**changes: Any) -> dict[str, Any]:
    return {
        "id": 7, "table": TABLE, "action": "compaction", "instant": "001", "status": "failed", "attempts": 1,
        "created_at": None, "reason": LONG, "failure": {"reason": "failed", "message": LONG},
        "attempt_list": [], **changes,
    }  # fmt: skip


def an_attempt(number: int, message: str) -> dict[str, Any]:
    return {"number": number, "engine": "spark", "started_at": None, "failure": {"message": message}}


def printed(view: RenderableType) -> str:
    console = SafeConsole(width=200)
    with console.capture() as captured:
        console.print(view)
    return captured.get()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("the plan is gone. It was run by the writer.", "the plan is gone. It was run by the writer."),
        (LONG, "java.lang.IllegalStateException: the plan is gone. …"),
        ("first line\nsecond line", "first line …"),
        ("x" * 500, "x" * 160 + " …"),
    ],
)
def test_a_long_reason_is_cut_after_its_first_sentence(text: str, shown: str) -> None:
    assert brief(text) == shown


def test_a_list_of_operations_takes_a_line_for_each() -> None:
    text = printed(operations_view({"items": [an_operation()], "next": None}))

    assert len(text.splitlines()) == 2
    assert "the plan is gone. …" in text


def test_one_operation_is_shown_with_the_whole_failure() -> None:
    text = "".join(printed(operation_view(an_operation(attempt_list=[an_attempt(1, LONG)]))).split())

    assert text.count("Causedby") == 40 * 2, "as reason and as failure, not once more for the attempt"


def test_a_succeeded_operation_shows_the_failure_of_an_earlier_attempt_as_the_attempts_own() -> None:
    retried = an_operation(status="succeeded", reason="done", attempt_list=[an_attempt(1, LONG)])

    text = printed(operation_view(retried))

    assert "".join(text.split()).count("Causedby") == 40
    assert not any(line.startswith("failure ") for line in text.splitlines())


def test_an_operation_shows_the_rows_of_both_states() -> None:
    numbers = {"before": {"state": "4", "rows": 100, "from": "metadata"},
               "after": {"state": "5", "rows": 99, "from": "data", "checksum": "ab12"}}  # fmt: skip
    report = {"outcome": "unequal", "reason": "100 rows at 4, and 99 rows at 5", **numbers}

    shown = printed(operation_view(an_operation(result={"verified_rows": report})))

    assert "unequal: 100 rows at 4, and 99 rows at 5" in shown
    assert "before: 100 rows at 4, from metadata" in shown
    assert "after: 99 rows at 5, from data, checksum ab12" in shown
