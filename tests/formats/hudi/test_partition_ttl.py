# SPDX-License-Identifier: Apache-2.0
"""Which partitions expire, what keeps them, and the proof that those that were announced are dropped, and no others."""

import json
import os
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakehand.domain.processes import Json
from lakehand.formats.hudi import HudiProcessFactory
from lakehand.formats.hudi.partition_ttl import PARTITION_TTL
from lakehand.spi import Drop, Failure, Finding, Operation, Scheduling, Skip, TableProcess, Verdict
from tests.formats.hudi.runtime import (
    EVENTS_V6,
    EVENTS_V9,
    FILE_LOCK,
    NOON,
    MemoryRuntime,
    copied,
    finish,
    operation,
    remove,
    set_property,
    timeline,
)
from tests.kit.sentences import Sentences

MONTH = {**FILE_LOCK, "hudi.partition-ttl.retain": "30d"}
GROUP = "8f5d0c1e-0000-0000-0000-{:012}-0"
DROPPED = "20261116100000000"


@pytest.fixture(params=[("events_v9", EVENTS_V9), ("events_v6", EVENTS_V6)], ids=["v9", "v6"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Ten partitions: two were last written 40 and 50 days ago, the others ten days ago or later."""
    name, plan = request.param
    path = copied(name, tmp_path)
    remove(path, plan)
    for number in range(10):
        write(path, number, NOON - timedelta(days=(50, 40)[number] if number < 2 else number))
    return path


def write(path: Path, number: int, at: datetime, *, name: str = "", modified: datetime | None = None) -> Path:
    """A file of a partition, written at some time; as a log that bears the instant of its base file, if named so."""
    folder = path / f"day={number}"
    folder.mkdir(exist_ok=True)
    (folder / ".hoodie_partition_metadata").touch()
    file = folder / (name or f"{GROUP.format(number)}_0-1-2_{at:%Y%m%d%H%M%S}000.parquet")
    file.write_bytes(b"12345")
    moment = (modified or at).timestamp()
    os.utime(file, (moment, moment))
    return file


def decided(path: Path, properties: Mapping[str, str] = MONTH, **runtime: Any) -> TableProcess | Skip:
    runtime = {"scheduling": Scheduling.SERVICE, **runtime}
    return HudiProcessFactory().trigger(MemoryRuntime(path, properties=properties, **runtime), PARTITION_TTL)


def why_not(path: Path, properties: Mapping[str, str] = MONTH, **runtime: Any) -> str:
    answer = decided(path, properties, **runtime)
    assert isinstance(answer, Skip), answer
    return answer.reason


def admit(path: Path, wanted: Operation, properties: Mapping[str, str] = MONTH) -> TableProcess | Skip | Drop | Failure:
    return HudiProcessFactory().admit(MemoryRuntime(path, properties=properties, scheduling=Scheduling.SERVICE), wanted)


def admitted(path: Path, properties: Mapping[str, str] = MONTH) -> TableProcess:
    wanted = decided(path, properties)
    assert isinstance(wanted, TableProcess), wanted
    answer = admit(path, operation(wanted), properties)
    assert isinstance(answer, TableProcess), answer
    return answer


def requested(**parameters: Json) -> Operation:
    plan = {"mode": "plan-and-execute", **parameters}
    return operation(TableProcess(action=PARTITION_TTL, parameters=plan), origin="api")


def test_the_partitions_that_were_last_written_too_long_ago_are_announced_with_numbers(
    table: Path, sentences: Sentences
) -> None:
    process = admitted(table)

    assert process.parameters["partitions"] == ["day=0", "day=1"]
    assert process.parameters["older_than"] == int((NOON - timedelta(days=30)).timestamp() * 1000)
    found = {"old": 2, "partitions": 10, "days": 30, "dropped": 2, "files": 2, "bytes": 10}
    names = "day=0 (2026-09-26), day=1 (2026-10-06)"
    sentences.check("partitions expired", process.reason, **found, names=names)


def test_nothing_expires_by_default_and_no_request_turns_it_on(table: Path, sentences: Sentences) -> None:
    sentences.check("no retention is set", why_not(table, FILE_LOCK), key="hudi.partition-ttl.retain")
    refused = admit(table, requested(options={"retain": "30d"}), FILE_LOCK)
    assert isinstance(refused, Failure)
    sentences.check("no retention is set", refused.message, key="hudi.partition-ttl.retain")


@pytest.mark.parametrize(
    ("setting", "request_", "expired"), [("1d", None, 4), ("30d", "1d", 2), ("30d", "45d", 1), ("30d", "60d", 0)]
)
def test_nobody_goes_below_the_floor_and_a_request_can_only_keep_longer(
    table: Path, setting: str, request_: str | None, expired: int, sentences: Sentences
) -> None:
    properties = {**MONTH, "hudi.partition-ttl.retain": setting}
    options = {"retain": request_} if request_ else {}

    answer = admit(table, requested(options=options, confirm=True), properties)

    if expired:
        assert isinstance(answer, TableProcess)
        assert len(answer.parameters["partitions"]) == expired  # type: ignore[arg-type]
    else:
        assert isinstance(answer, Failure)
        sentences.check("no partition expired", answer.message, old=0, partitions=10, days=60)


def test_a_partition_with_a_new_log_on_an_old_base_file_is_kept(table: Path) -> None:
    """In old tables only the time of the log file's change tells; Hudi's own strategy reads the base file's name."""
    write(table, 0, NOON, name=f".{GROUP.format(0)}_20260926120000000.log.1_0-3-4")

    assert admitted(table).parameters["partitions"] == ["day=1"]


def test_a_file_counts_as_written_at_its_change_or_its_instant_whichever_is_later(
    table: Path, sentences: Sentences
) -> None:
    write(table, 0, NOON - timedelta(days=50), modified=NOON - timedelta(days=1))
    write(table, 1, NOON - timedelta(days=1), modified=NOON - timedelta(days=50))

    sentences.check("no partition expired", why_not(table), old=0, partitions=10, days=30)


def test_most_of_a_table_or_all_of_it_goes_only_when_someone_confirms_it(table: Path, sentences: Sentences) -> None:
    for number in range(10):
        for file in (table / f"day={number}").glob("*.parquet"):
            file.unlink()
        write(table, number, NOON - timedelta(days=60))

    sentences.check("too many partitions expired", why_not(table), old=10, partitions=10, share="30%")
    assert isinstance(admit(table, requested()), Failure)
    confirmed = admit(table, requested(confirm=True))
    assert isinstance(confirmed, TableProcess)
    assert len(confirmed.parameters["partitions"]) == 10  # type: ignore[arg-type]
    again = admit(table, operation(confirmed, origin="api", run_times=1))
    assert again == confirmed, "the next attempt needs no other confirmation"


def test_one_run_drops_a_bounded_number_the_oldest_first(table: Path) -> None:
    assert admitted(table, {**MONTH, "hudi.partition-ttl.max-partitions": "1"}).parameters["partitions"] == ["day=0"]


def test_it_is_done_only_with_service_scheduling_and_a_shared_lock_and_after_pending_plans(
    table: Path, sentences: Sentences
) -> None:
    wanted = decided(table)
    assert isinstance(wanted, TableProcess)
    left = why_not(table, scheduling=Scheduling.WRITER)
    sentences.check("the action is left to the writer", left, action=PARTITION_TTL)
    unlocked = why_not(table, {"hudi.partition-ttl.retain": "30d"})
    sentences.check("not done without a lock", unlocked, action=PARTITION_TTL, key="hoodie.write.lock.provider")
    (timeline(table) / "20261116000000000.clean.requested").touch()

    answer = admit(table, operation(wanted))

    assert isinstance(answer, Skip)
    sentences.check("another plan goes first", answer.reason, action="clean", plan="20261116000000000")


def test_a_table_without_partitions_has_none_to_drop(table: Path, sentences: Sentences) -> None:
    set_property(table, "hoodie.table.partition.fields", "")

    sentences.check("no partitions to drop", why_not(table))


def drop(path: Path, process: TableProcess, *names: str) -> str:
    """The replacecommit as the job makes it: its file."""
    tag = {"operation_tag": process.parameters["operation_tag"]}
    groups = {name: [GROUP.format(int(name[-1]))] for name in names}
    name = finish(path, DROPPED, "replacecommit")  # type: ignore[arg-type]
    document = {"operationType": "DELETE_PARTITION", "extraMetadata": tag, "partitionToReplaceFileIds": groups}
    (timeline(path) / name).write_text(json.dumps(document))
    return name


def verdict(path: Path, process: TableProcess, result: Mapping[str, Json] | None = None) -> Verdict:
    runtime = MemoryRuntime(path, properties=MONTH, scheduling=Scheduling.SERVICE)
    return HudiProcessFactory().verify(runtime, process, result or {})


def test_the_commit_that_bears_the_tag_is_the_proof_and_what_it_dropped_is_not_wanted_again(
    table: Path, sentences: Sentences
) -> None:
    process = admitted(table)
    assert verdict(table, process).finding is Finding.NOT_DONE

    commit = drop(table, process, "day=0", "day=1")

    found = verdict(table, process)
    assert found.finding is Finding.DONE
    sentences.check("partitions are dropped", found.reason, dropped=2, commit=commit)
    assert (found.numbers["partitions_dropped"], found.numbers["changed"]) == (2, True)
    sentences.check("no partition expired", why_not(table), old=0, partitions=8, days=30)
    again = admit(table, operation(process, run_times=1))
    assert isinstance(again, TableProcess), "the job finds that it is done"


def test_a_partition_that_was_written_meanwhile_stays(table: Path, sentences: Sentences) -> None:
    process = admitted(table)
    kept = {"day=0": "day=0 was written meanwhile: x.parquet"}
    commit = drop(table, process, "day=1")

    found = {"dropped": 1, "commit": commit, "name": "day=1", "stay": 1, "announced": 2}
    sentences.check("a partition was written meanwhile", verdict(table, process).reason, **found)
    assert verdict(table, process, {"kept": kept}).finding is Finding.DONE
    remove(table, DROPPED)  # type: ignore[arg-type]
    assert verdict(table, process, {"kept": {**kept, "day=1": "too"}}).finding is Finding.GONE


def test_a_commit_that_dropped_more_than_was_announced_is_reported(table: Path, sentences: Sentences) -> None:
    process = admitted(table)
    commit = drop(table, process, "day=0", "day=7")

    found = verdict(table, process)
    sentences.check("a partition was never announced", found.reason, commit=commit, other="day=7")


def test_a_dry_run_lists_and_needs_no_confirmation(table: Path, sentences: Sentences) -> None:
    answer = admit(table, requested(dry_run=True))

    assert isinstance(answer, TableProcess)
    assert answer.parameters["dry_run"] is True
    listed = verdict(table, answer, {"would_delete_files": 2})
    assert listed.finding is Finding.DONE
    sentences.check("a dry run", listed.reason, action=PARTITION_TTL, files=2)
