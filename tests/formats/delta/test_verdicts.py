# SPDX-License-Identifier: Apache-2.0
"""Verdicts from the log about an operation, whatever the engine reports; and what follows from each failure."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from lakehand.formats.delta import DeltaProcessFactory
from lakehand.spi import EngineState, EngineStatus, Finding, Operation, Remedy, TableProcess
from lakehand.testing.harness import PluginHarness
from tests.formats.classifying import failure_of
from tests.formats.delta.logs import MB, LogTable, add, adds, remove
from tests.kit.sentences import Sentences


def admitted(table: LogTable, action: str = "optimize") -> tuple[PluginHarness, Operation]:
    harness = table.harness()
    wanted = harness.wants(action)
    assert isinstance(wanted, TableProcess), wanted
    return harness, harness.admitted(harness.stored(wanted))


def merge(table: LogTable, count: int, **info: str) -> None:
    gone = [remove(f"part-{n}.parquet", days_ago=0) for n in range(count)]
    table.commit(add("merged", count * MB, rows=0), *gone, operation="OPTIMIZE", days_ago=0, **info)


def tag(operation: Operation) -> dict[str, Any]:
    return {"userMetadata": f"lakehand-operation={operation.tag}"}


def test_a_commit_with_our_tag_is_the_effect_even_without_a_result(tmp_path: Path, sentences: Sentences) -> None:
    table = LogTable(tmp_path / "t", adds(30, MB))
    harness, operation = admitted(table)
    merge(table, 30, **tag(operation))
    table.commit(add("later", MB))

    verdict = harness.verdict(operation, {})

    assert verdict.finding is Finding.DONE
    found = {"version": 1, "inputs": 30, "input_size": "30.0 MB", "outputs": 1, "output_size": "30.0 MB"}
    sentences.check("files were rewritten", verdict.reason, **found)
    assert (verdict.numbers["changed"], verdict.numbers["versions"]) == (True, [1])
    assert (verdict.numbers["files_removed"], verdict.numbers["bytes_rewritten"]) == (30, 30 * MB)
    assert verdict.numbers["before"]["files"] == 30  # type: ignore[index, call-overload]
    assert verdict.numbers["after"]["files"] == 2  # type: ignore[index, call-overload]


@pytest.mark.parametrize("result", [{}, {"causes": ["x"]}, {"nothing_to_do": False}, {"nothing_to_do": "true"}])
def test_the_work_of_someone_else_is_not_ours(tmp_path: Path, result: dict[str, object], sentences: Sentences) -> None:
    table = LogTable(tmp_path / "t", adds(30, MB))
    harness, operation = admitted(table)
    merge(table, 30, userMetadata="lakehand-operation=9-other")
    verdict = harness.verdict(operation, result)  # type: ignore[arg-type]
    assert verdict.finding is Finding.NOT_DONE
    sentences.check("no commit of the operation", verdict.reason, first=1, last=1)


def test_a_job_that_found_nothing_succeeds_and_changed_nothing(tmp_path: Path) -> None:
    harness, operation = admitted(LogTable(tmp_path / "t", adds(30, MB)))
    verdict = harness.verdict(operation, {"nothing_to_do": True})
    assert (verdict.finding, verdict.numbers) == (Finding.DONE, {"changed": False})


def test_rows_that_were_lost_on_the_way_are_reported(tmp_path: Path, sentences: Sentences) -> None:
    table = LogTable(tmp_path / "t", adds(30, MB))
    harness, operation = admitted(table)
    tombstones = [remove(f"part-{n}.parquet", days_ago=0) for n in range(30)]
    for tombstone in tombstones:
        tombstone["remove"]["stats"] = '{"numRecords": 10}'
    table.commit(add("merged", MB, rows=299), *tombstones, operation="OPTIMIZE", **tag(operation))
    sentences.check("rows were lost", harness.verdict(operation, {}).reason, before=300, after=299)


def test_a_recreated_table_is_gone(tmp_path: Path) -> None:
    table = LogTable(tmp_path / "t")
    table.commit(*adds(30, MB))
    harness, operation = admitted(table)
    table.file(1).unlink()
    assert harness.verdict(operation, {}).finding is Finding.GONE


@pytest.mark.parametrize(
    ("ends", "finding", "case"),
    [
        ([], Finding.NOT_DONE, "the vacuum did not begin"),
        (["VACUUM START"], Finding.NOT_DONE, "the vacuum did not end"),
        (["VACUUM START", "FAILED"], Finding.NOT_DONE, "the vacuum failed"),
        (["VACUUM START", "COMPLETED"], Finding.DONE, "the vacuum was completed"),
        (["VACUUM START", "VACUUM START", "COMPLETED"], Finding.DONE, "the vacuum was completed"),
    ],
)
def test_a_vacuum_is_done_when_its_end_is_in_the_log(
    tmp_path: Path, ends: list[str], finding: Finding, case: str, sentences: Sentences
) -> None:
    table = LogTable(tmp_path / "t", adds(12, MB), days_ago=20)
    table.commit(*(remove(f"part-{n}.parquet", days_ago=9) for n in range(12)), days_ago=9)
    harness, operation = admitted(table, "vacuum")
    sizes = {"numFilesToDelete": "12", "sizeOfDataToDelete": str(12 * MB)}
    for word in ends:
        if word == "VACUUM START":
            table.commit(operation=word, operationMetrics=sizes, **tag(operation))
        else:
            status: dict[str, Any] = {
                "operationParameters": {"status": word},
                "operationMetrics": {"numDeletedFiles": "12"},
            }
            table.commit(operation="VACUUM END", **status, **tag(operation))

    verdict = harness.verdict(operation, {"listed_files": 12})

    assert verdict.finding is finding, verdict
    found = {"version": table.version, "files": 12, "size": "12.0 MB"} if finding is Finding.DONE else {}
    sentences.check(case, verdict.reason, **found)
    assert verdict.numbers.get("files_removed") == (12 if finding is Finding.DONE else None)


@pytest.mark.parametrize(
    ("error", "message", "reason", "remedy"),
    [
        ("io.delta.exceptions.ConcurrentAppendException", "[DELTA_CONCURRENT_APPEND]", "write-conflict", "retry"),
        ("x", "[DELTA_CONCURRENT_DELETE_READ] ...", "write-conflict", "retry"),
        ("io.delta.exceptions.MetadataChangedException", "[DELTA_METADATA_CHANGED]", "table-changed", "retry"),
        ("x", "[DELTA_MISSING_DELTA_TABLE] `/x` is not a Delta table.", "table-missing", "fatal"),
        ("x", "[DELTA_UNSUPPORTED_FEATURES_FOR_WRITE] ...", "protocol-unknown", "fatal"),
        ("java.lang.IllegalArgumentException", "... such a low retention period? ...", "refused", "fatal"),
        ("lakehand.jobs.safety.BelowFloor", "...", "refused", "fatal"),
        ("lakehand.jobs.delta.vacuum.LiveFileListed", "...", "live-file-listed", "fatal"),
        ("x", "[DELTA_CANNOT_VACUUM_LITE] VACUUM LITE cannot delete all eligible files", "lite-impossible", "fatal"),
        ("java.lang.OutOfMemoryError", "Java heap space", "out-of-memory", "retry"),
        ("some.Odd", "thing", "Odd", "retry"),
    ],
)  # fmt: skip
def test_failures_are_distinguished(error: str, message: str, reason: str, remedy: str) -> None:
    status = EngineStatus(state=EngineState.FAILED, error_class=error, message=message)
    failure = failure_of(DeltaProcessFactory(), "vacuum", status)
    assert (failure.reason, failure.remedy) == (reason, Remedy(remedy))
    assert failure.message.startswith(message)


def test_after_a_conflict_the_writer_gets_time() -> None:
    status = EngineStatus(state=EngineState.FAILED, error_class="x", message="[DELTA_CONCURRENT_WRITE]")
    assert failure_of(DeltaProcessFactory(), "optimize", status).delay == timedelta(minutes=2)
