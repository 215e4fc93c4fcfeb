# SPDX-License-Identifier: Apache-2.0
"""Tests wait for conditions, with a deadline: no test file pauses for a time that should be enough."""

import ast
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from tests.kit.polling import wait_for

TESTS = Path(__file__).parents[1]
# The only pauses, and why each of them waits for nothing.
ALLOWED = {
    "kit/polling.py": "the pause between two questions",
    "cluster/routed/lakehand_routed.py": "runs in a driver, where this package is not",
    "core/test_alert_kills.py": "the pace of an instance in a process of its own",
    "e2e/races.py": "a writer that leaves others a moment between its commits",
    "e2e/stops/lakehand_stops.py": "runs in a driver, where this package is not",
    "engines/played_spark.py": "a program of its own, where this package is not",
    "jobs/iceberg/test_conflicts.py": "runs in a worker of Spark, where this package is not",
    "jobs/paimon/service.py": "runs in a worker of Spark, where this package is not",
    "kit/leftovers.py": "lets what a test leaves behind end, between tests",
    "rolling/plan_folders.py": "a job that takes its time",
    "s3_proxy.py": "a store that is slow on purpose",
}


def pauses(code: str) -> Iterator[int]:
    """The lines that call the sleep of time or asyncio; ``sleep(0)`` only lets others go on."""
    for node in ast.walk(ast.parse(code)) if "sleep" in code else ():
        if not isinstance(node, ast.Call):
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called == "sleep" and ast.unparse(node.args[0]) != "0":
            yield node.lineno


def test_only_these_files_of_tests_pause() -> None:
    files = {str(file.relative_to(TESTS)): list(pauses(file.read_text("utf-8"))) for file in TESTS.rglob("*.py")}
    found = {name: lines for name, lines in files.items() if lines}

    assert {name: lines for name, lines in found.items() if name not in ALLOWED} == {}, "use tests.kit.polling.wait_for"
    assert ALLOWED.keys() == found.keys(), "this file pauses no more"


@pytest.mark.parametrize(
    ("code", "is_pause"),
    [
        ("import time\ntime.sleep(0.1)", True),
        ("from time import sleep\nsleep(PAUSE)", True),
        ("async def f():\n    await asyncio.sleep(1)", True),
        ("time.sleep(0)", False),
        ('text = "time.sleep(1)"', False),
    ],
)
def test_a_pause_is_found_however_it_is_written(code: str, is_pause: bool) -> None:
    assert bool(list(pauses(code))) is is_pause


def test_an_example_of_a_property_may_take_long() -> None:
    """A machine that is busy for a moment fails no test."""
    assert hypothesis.settings().deadline is None


def test_the_first_answer_is_returned() -> None:
    answers = iter([None, 0, "", "here"])

    assert wait_for(lambda: next(answers), "an answer", pace=0) == "here"


def test_what_was_waited_for_is_in_the_message() -> None:
    with pytest.raises(AssertionError, match="waited 0 s for a miracle"):
        wait_for(lambda: None, "a miracle", timeout=0, pace=0)
