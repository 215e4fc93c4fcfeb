# SPDX-License-Identifier: Apache-2.0
"""Which tests run: the long ones by turns in CI, all of them before a release, and the rest at every change."""

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

CHOICES = ("none", "turn", "all")
RECORD = "tests/long_seconds.json"
CHOSEN = "LAKEHAND_TESTS_LONG"  # the chosen files, for the processes of xdist


def long_values(*values: object) -> list[Any]:
    """Values of a parametrised test that take long, while the test's other values show nearly the same."""
    return [pytest.param(value, marks=pytest.mark.long) for value in values]


def add_options(parser: pytest.Parser) -> None:
    parser.addoption("--long", choices=CHOICES, help="long tests: none, those whose turn it is, all (of named files)")
    parser.addoption("--record-long", action="store_true", help=f"write the seconds of long tests into {RECORD}")


def choose_files(config: pytest.Config) -> str:
    """Decide once, in the process that starts the others; returns the decision as a line for the report."""
    if hasattr(config, "workerinput"):
        return ""
    chosen, line = decide(config)
    os.environ[CHOSEN] = json.dumps(chosen)
    return line


def decide(config: pytest.Config) -> tuple[list[str] | None, str]:
    """The files whose long tests run; None for all."""
    wanted = config.getoption("--long")
    if wanted == "turn":
        from tests.kit.turns import choice_of_this_commit  # reads the import graph: only for those who need it

        choice = choice_of_this_commit()
        return sorted(choice.files), f"long tests: {choice}"
    is_named = config.args_source is pytest.Config.ArgsSource.ARGS or "long" in config.getoption("markexpr", "")
    if wanted == "all" or (wanted is None and is_named):
        return None, "long tests: all"
    return [], "long tests: none (make test-all runs them, and so does naming their files)"


def leave_out(config: pytest.Config, items: list[pytest.Item]) -> None:
    chosen = json.loads(os.environ.get(CHOSEN, "null"))
    if chosen is None:
        return
    left_out = [item for item in items if item.get_closest_marker("long") and file_of(item.nodeid) not in chosen]
    if left_out:
        names = set(left_out)
        items[:] = [item for item in items if item not in names]
        config.hook.pytest_deselected(items=left_out)


def file_of(nodeid: str) -> str:
    """Where the test is run; that of a contract suite is written elsewhere."""
    return nodeid.partition("::")[0]


def has_long_tests(file: Path) -> bool:
    text = file.read_text(encoding="utf-8")
    return "mark.long" in text or "long_values(" in text


class SecondsRecorder:
    """Adds up how long the long tests of each file take, and keeps that for the next turns."""

    def __init__(self, record: Path) -> None:
        self.record = record
        self.seconds: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if "long" in report.keywords:
            self.seconds[file_of(report.nodeid)] += report.duration  # type: ignore[assignment]

    def pytest_sessionfinish(self) -> None:
        known = json.loads(self.record.read_text(encoding="utf-8")) if self.record.exists() else {}
        known |= {name: round(seconds) for name, seconds in self.seconds.items()}
        root = self.record.parents[1]
        kept = {name: known[name] for name in sorted(known) if (root / name).exists() and has_long_tests(root / name)}
        self.record.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


def record_seconds(config: pytest.Config) -> None:
    if config.getoption("--record-long") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(SecondsRecorder(config.rootpath / RECORD))
