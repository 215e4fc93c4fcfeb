# SPDX-License-Identifier: Apache-2.0
"""The real Hudi client does what the wire's tests assume: what it sends, and what it leaves on the timeline."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet
import pytest

from tests.hudi_client import Recorder, build, expected_sum, recording, require, run

# What it sends is on record, and tests/rest/test_hudi_wire plays it at every change.
pytestmark = [pytest.mark.spark, pytest.mark.long]


@pytest.fixture(scope="session")
def jar(request: pytest.FixtureRequest) -> Path:
    return require(request.config)


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    with recording() as recorder:
        yield recorder


def test_the_same_sources_are_built_once(jar: Path) -> None:
    said: list[str] = []

    assert build(say=said.append) == jar
    assert said == []


def test_a_writer_with_the_manager_on_asks_for_its_pending_plan(jar: Path, recorder: Recorder, tmp_path: Path) -> None:
    ended = run(tmp_path / "trips", commits=5, uri=recorder.uri, jar=jar)

    assert ended.ok, ended.errors
    assert [commit.ok for commit in ended.commits] == [True] * 5
    [plan] = ended.pending_compactions
    assert [request.parameters["instant"] for request in recorder.sent_to("compact")] == ["", plan, plan, plan, plan]
    assert (tmp_path / f"trips/.hoodie/timeline/{plan}.compaction.requested").is_file()


def test_a_request_names_the_table_and_what_it_wants(jar: Path, recorder: Recorder, tmp_path: Path) -> None:
    run(tmp_path / "trips", uri=recorder.uri, jar=jar)

    [request] = recorder.requests
    assert (request.method, request.path, request.body) == ("GET", "/v1/hoodie/service/compact", "")
    assert "&db_name&" in request.target.replace("?", "&") + "&"
    assert request.parameters == {
        "action": "REQUEST",
        "basepath": str(tmp_path / "trips"),
        "db_name": "",
        "execution_engine": "spark",
        "extra_params": "",
        "instant": "",
        "parallelism": "100",
        "queue": "default",
        "resource": "spark:4g,4g",
        "table_name": "trips",
        "username": "default",
    }


def test_each_commit_calls_back_with_its_instant(jar: Path, recorder: Recorder, tmp_path: Path) -> None:
    ended = run(tmp_path / "trips", commits=3, callback=recorder.callback, jar=jar)

    assert ended.ok, ended.errors
    assert {request.method for request in recorder.requests} == {"POST"}
    assert [request.json["commitTime"] for request in recorder.sent_to("callback")] == list(ended.instants)
    assert {request.json["basePath"] for request in recorder.requests} == {str(tmp_path / "trips")}


def test_a_commit_whose_request_fails_is_reported_and_still_complete(jar: Path, tmp_path: Path) -> None:
    with recording() as gone:
        pass
    ended = run(tmp_path / "trips", commits=2, uri=gone.uri, jar=jar)

    assert ended.exit_code == 1
    assert ["HoodieRemoteException" in error for error in ended.errors] == [True, True]
    assert [commit.completed for commit in ended.commits] == [True, True]


def test_a_second_run_updates_the_keys_of_the_first(jar: Path, tmp_path: Path) -> None:
    run(tmp_path / "trips", commits=2, rows=30, partitions=3, table_type="COPY_ON_WRITE", jar=jar)
    run(tmp_path / "trips", start_commit=3, rows=30, partitions=3, table_type="COPY_ON_WRITE", jar=jar)

    values = values_in_newest_files(tmp_path / "trips")
    assert len(values) == 30
    assert sum(values) == expected_sum(rows=30, last_commit=3)


def values_in_newest_files(table: Path) -> list[int]:
    newest: dict[str, Path] = {}
    for file in sorted(table.glob("p*/*.parquet"), key=lambda path: path.stem.split("_")[2]):
        newest[file.stem.split("_")[0]] = file
    columns = (pyarrow.parquet.read_table(file, columns=["value"])["value"] for file in newest.values())
    return [value for column in columns for value in column.to_pylist()]
