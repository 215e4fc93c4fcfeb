# SPDX-License-Identifier: Apache-2.0
"""Which long tests CI runs: what the last commits touched, and everything within some commits."""

import json
from pathlib import Path

import pytest
from grimp import ImportGraph, build_graph

from tests.kit.tiers import SecondsRecorder
from tests.kit.turns import SECONDS, choose, distances_of, files_with_long_tests, read_seconds, turns_of

LONG = {f"tests/test_{number}.py": 10.0 * number for number in range(1, 13)}  # 780 seconds


@pytest.fixture(scope="module")
def graph() -> ImportGraph:
    return build_graph("lakehand", "tests")


def test_as_many_commits_in_a_row_as_there_are_turns_run_everything() -> None:
    turns = choose(LONG, {}, 0, budget=400).turns

    run = [choose(LONG, {}, commits, budget=400).turn for commits in range(607, 607 + turns)]

    assert turns == 4
    assert sorted(name for turn in run for name in turn) == sorted(LONG)


def test_turns_are_about_equally_long() -> None:
    lengths = [sum(LONG[name] for name in turn) for turn in turns_of(LONG, 200)]

    assert sum(lengths) == 780
    assert max(lengths) <= 220


def test_what_is_nearest_to_a_change_runs_first_and_within_the_budget() -> None:
    distances = {"tests/test_12.py": 1, "tests/test_3.py": 2, "tests/test_2.py": 2, "tests/test_9.py": 3}

    assert choose(LONG, distances, 0, budget=400).touched == ("tests/test_12.py", "tests/test_2.py", "tests/test_3.py")
    assert choose(LONG, {"tests/test_12.py": 0}, 0, budget=100).touched == ()


def test_no_turn_is_empty_however_small_the_budget_is() -> None:
    assert turns_of({"tests/test_1.py": 900.0, "tests/test_2.py": 1.0}, 5) == [["tests/test_1.py"], ["tests/test_2.py"]]
    assert choose({}, {}, 7, budget=5).files == frozenset()


def test_a_changed_job_is_near_the_tests_of_its_format_although_nothing_imports_it(graph: ImportGraph) -> None:
    near = distances_of(
        ["tests/jobs/delta/test_conflicts.py", "tests/jobs/hudi/test_jobs.py"],
        ["src/lakehand/jobs/delta/vacuum.py"],
        graph,
    )

    assert near["tests/jobs/delta/test_conflicts.py"] == 1
    assert near.get("tests/jobs/hudi/test_jobs.py", 9) > 1


def test_a_changed_test_file_is_nearest_and_an_unknown_one_is_no_error(graph: ImportGraph) -> None:
    changed = ["tests/e2e/test_kills.py", "src/lakehand/no_such_module.py"]

    assert distances_of(["tests/e2e/test_kills.py"], changed, graph) == {"tests/e2e/test_kills.py": 0}


def test_a_change_that_nothing_reaches_touches_nothing(graph: ImportGraph) -> None:
    assert distances_of(files_with_long_tests(), ["bench/longevity.py"], graph) == {}


def test_a_file_that_was_not_measured_counts_a_minute(tmp_path: Path) -> None:
    record = tmp_path / "seconds.json"
    record.write_text('{"tests/a.py": 12}')

    assert read_seconds(["tests/a.py", "tests/b.py"], record) == {"tests/a.py": 12.0, "tests/b.py": 60.0}


def test_the_measured_files_are_there() -> None:
    assert set(json.loads(SECONDS.read_text(encoding="utf-8"))) <= set(files_with_long_tests())


def test_a_run_replaces_the_seconds_of_the_files_that_it_ran(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    for name in ("a", "b"):
        (tmp_path / "tests" / f"{name}.py").write_text("@pytest.mark.long")
    (tmp_path / "tests" / "short.py").write_text('@pytest.mark.parametrize("body", ["short", "long"])')
    record = tmp_path / "tests" / "long_seconds.json"
    record.write_text('{"tests/a.py": 5, "tests/b.py": 6, "tests/gone.py": 7}')
    recorder = SecondsRecorder(record)
    for duration in (1.2, 2.4):
        recorder.pytest_runtest_logreport(a_report("tests/a.py", duration))
    recorder.pytest_runtest_logreport(a_report("tests/short.py", 3))  # the name of a value is a keyword, too

    recorder.pytest_sessionfinish()

    assert json.loads(record.read_text()) == {"tests/a.py": 4, "tests/b.py": 6}


def a_report(file: str, duration: float) -> pytest.TestReport:
    return pytest.TestReport(
        nodeid=f"{file}::test", location=("src/contract.py", 1, "test"), keywords={"long": 1}, outcome="passed",
        longrepr=None, when="call", duration=duration,
    )  # fmt: skip
