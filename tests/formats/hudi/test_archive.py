# SPDX-License-Identifier: Apache-2.0
"""When a timeline is archived, what Hudi keeps on it, and how the archive shows that an instant is in it."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from pyarrow import parquet

from lakehand.formats.hudi import HudiProcessFactory
from lakehand.formats.hudi.snapshot import ARCHIVE
from lakehand.spi import Drop, Failure, Finding, Operation, Scheduling, Skip, Status, TableProcess
from tests.formats.hudi.runtime import FILE_LOCK, NOON, MemoryRuntime, commit, operation, set_property, timeline

SETTINGS = {
    **FILE_LOCK,
    "hudi.archive.min-commits": "4",
    "hudi.archive.max-commits": "6",
    "hudi.clean.retain-commits": "2",
}
FIRST = 20261101000000000
CLEAN_PLAN = {
    "type": "record", "name": "HoodieCleanerPlan", "fields": [
        {"name": "earliestInstantToRetain", "type": ["null", {
            "type": "record", "name": "HoodieActionInstant", "fields": [{"name": "timestamp", "type": "string"}],
        }]},
    ],
}  # fmt: skip


def instant(number: int) -> str:
    return str(FIRST + number * 1000)


def table_of(folder: Path, commits: int, *, layout: int = 2, kind: str = "COPY_ON_WRITE") -> Path:
    """A table that is nothing but a timeline."""
    path = folder / "orders"
    (path / ".hoodie" / ("timeline" if layout == 2 else "")).mkdir(parents=True, exist_ok=True)
    version = {1: 6, 2: 9}[layout]
    described = {
        "hoodie.table.name": "orders", "hoodie.table.type": kind, "hoodie.table.version": version,
        "hoodie.timeline.layout.version": layout,
    }  # fmt: skip
    lines = [f"{key}={value}" for key, value in described.items()]
    (path / ".hoodie" / "hoodie.properties").write_text("\n".join([*lines, ""]))
    for number in range(commits):
        commit(path, instant(number), "commit" if kind == "COPY_ON_WRITE" else "deltacommit")
    return path


def clean(path: Path, number: int, *, kept: str) -> None:
    commit(path, instant(number), "clean")
    with (timeline(path) / f"{instant(number)}.clean.requested").open("wb") as file:
        fastavro.writer(file, fastavro.parse_schema(CLEAN_PLAN), [{"earliestInstantToRetain": {"timestamp": kept}}])


def runtime(path: Path, **changes: Any) -> MemoryRuntime:
    given = {"scheduling": Scheduling.SERVICE, "properties": SETTINGS, **changes}
    return MemoryRuntime(path, **given)


def wants(path: Path, **changes: Any) -> TableProcess | Skip:
    return HudiProcessFactory().trigger(runtime(path, **changes), ARCHIVE)


def reason(path: Path, **changes: Any) -> str:
    return wants(path, **changes).reason


def wanted(path: Path) -> TableProcess:
    found = wants(path)
    assert isinstance(found, TableProcess), found
    return found


def test_more_commits_than_the_threshold_are_archived_down_to_the_least(tmp_path: Path) -> None:
    assert (
        reason(table_of(tmp_path, 6)) == "6 commits are on the active timeline; an archive keeps 4 and begins above 6"
    )
    path = table_of(tmp_path, 7)
    assert wanted(path).reason == (
        f"7 commits are on the active timeline, more than 6: 3 can be archived, {instant(0)} to {instant(2)}"
    )
    commit(path, instant(20), "clean")
    assert "7 commits" in reason(path), "cleans are no commits"


def test_what_a_clean_retains_and_the_floor_stay_whatever_is_set(tmp_path: Path) -> None:
    path = table_of(tmp_path, 7)
    retaining = {**SETTINGS, "hudi.clean.retain-commits": "10"}
    assert "keeps 12 and begins above 14" in reason(path, properties=retaining)
    least = {**SETTINGS, "hudi.archive.min-commits": "1", "hudi.archive.max-commits": "1"}
    assert "keeps 4 and begins above 5" in reason(table_of(tmp_path / "few", 5), properties=least)


@pytest.mark.parametrize("pending", ["commit.requested", "clustering.requested", "compaction.inflight"])
def test_a_stuck_instant_is_named_with_its_age(pending: str, tmp_path: Path) -> None:
    path = table_of(tmp_path, 9)
    stuck = f"{FIRST + 1}"
    file = timeline(path) / f"{stuck}.{pending}"
    file.touch()
    age(file, hours=50)

    action, state = pending.split(".")
    kept = f"the {action} {stuck} is {state} for 50 h and keeps all commits since"
    assert reason(path) == f"9 commits are on the active timeline, more than 6, and none can be archived: {kept}"


def age(file: Path, *, hours: int) -> None:
    then = NOON.timestamp() - hours * 3600
    os.utime(file, (then, then))


def test_commits_before_a_pending_one_are_archived_and_the_reason_says_what_keeps_the_others(tmp_path: Path) -> None:
    path = table_of(tmp_path, 9)
    (timeline(path) / f"{FIRST + 3001}.commit.requested").touch()

    found = wanted(path).reason

    assert f"3 can be archived, {instant(0)} to {instant(2)}; then the commit {FIRST + 3001} is requested" in found


def test_a_savepoint_keeps_all_from_there_on(tmp_path: Path) -> None:
    path = table_of(tmp_path, 9)
    commit(path, instant(2), "savepoint")
    assert f"2 can be archived, {instant(0)} to {instant(1)}; then the savepoint {instant(2)}" in wanted(path).reason
    commit(path, instant(0), "savepoint")
    assert f"none can be archived: the savepoint {instant(0)} keeps all" in reason(path)


def test_files_that_were_replaced_must_be_cleaned_first(tmp_path: Path) -> None:
    path = table_of(tmp_path, 9)
    commit(path, str(FIRST + 1), "replacecommit")
    assert "1 can be archived" in wanted(path).reason
    assert f"then the files that {FIRST + 1} replaced must be cleaned first, and there was no clean yet" in reason(path)
    clean(path, 10, kept=instant(0))
    assert f"the last clean kept all since {instant(0)}" in reason(path)
    clean(path, 11, kept=instant(5))
    assert "6 can be archived" in reason(path)


def test_delta_commits_stay_until_they_are_compacted(tmp_path: Path) -> None:
    path = table_of(tmp_path, 9, kind="MERGE_ON_READ")
    few = {**SETTINGS, "hudi.compaction.delta-commits": "20"}
    assert "none can be archived: 9 delta commits are not compacted, and the last 20 of them stay" in reason(
        path, properties=few
    )
    some = {**SETTINGS, "hudi.compaction.delta-commits": "7"}
    assert "2 can be archived" in reason(path, properties=some)
    commit(path, str(FIRST + 6500), "commit")
    assert "6 can be archived" in reason(path)


def test_what_is_newer_than_the_last_compaction_of_the_metadata_table_stays(tmp_path: Path) -> None:
    path = table_of(tmp_path, 9)
    set_property(path, "hoodie.table.metadata.partitions", "files")
    assert "none can be archived: its metadata table was not compacted yet" in reason(path)
    metadata = path / ".hoodie" / "metadata" / ".hoodie" / "timeline"
    metadata.mkdir(parents=True)
    (metadata / f"{FIRST + 7001}_{FIRST + 7002}.commit").touch()  # commits take five seconds here
    assert f"3 can be archived, {instant(0)} to {instant(2)}; then its metadata table was last" in reason(path)


def test_archive_needs_service_scheduling_and_a_shared_lock(tmp_path: Path) -> None:
    path = table_of(tmp_path, 9)
    left = "archive is left to the writer: set scheduling = service to have it done here"
    assert reason(path, scheduling=Scheduling.WRITER) == left
    unlocked = {key: value for key, value in SETTINGS.items() if key not in FILE_LOCK}
    assert "archive is not done beside the writer: no lock is configured" in reason(path, properties=unlocked)
    asked = operation(TableProcess(action=ARCHIVE, parameters={"mode": "plan-and-execute"}), origin="api")
    refused = HudiProcessFactory().admit(runtime(path, properties=unlocked), asked)
    assert isinstance(refused, Failure)
    assert "set hoodie.write.lock.provider and its keys as its writers have them" in refused.message
    off = {**SETTINGS, "hoodie.table.service.archive.enable": "false"}
    assert reason(path, properties=off) == "hoodie.table.service.archive.enable is false (from table)"


def test_a_pending_clean_plan_goes_first(tmp_path: Path) -> None:
    path = table_of(tmp_path, 9)
    (timeline(path) / f"{instant(20)}.clean.requested").touch()
    assert reason(path) == f"clean plan {instant(20)} is pending and goes first"


def test_a_person_needs_no_threshold_and_can_keep_more(tmp_path: Path) -> None:
    path = table_of(tmp_path, 6)
    asked = operation(TableProcess(action=ARCHIVE, parameters={"mode": "plan-and-execute"}), origin="api")
    found = HudiProcessFactory().admit(runtime(path), asked)
    assert isinstance(found, TableProcess)
    assert (found.parameters["min_commits"], found.parameters["max_commits"]) == (4, 5)
    more = replace(
        asked, process=replace(asked.process, parameters={**asked.process.parameters, "options": {"min-commits": 5}})
    )
    refused = HudiProcessFactory().admit(runtime(path), more)
    assert isinstance(refused, Failure)
    assert refused.message == "6 commits are on the active timeline; an archive keeps 5 and begins above 6"


def ended(process: TableProcess, **result: Any) -> Operation:
    return operation(process, status=Status.SUCCEEDED, result=result, finished_at=NOON)


def test_an_archive_that_found_nothing_is_not_tried_again_before_there_is_more(tmp_path: Path) -> None:
    path = table_of(tmp_path, 7)
    last = ended(wanted(path), changed=False)
    waiting = "operation 7 could archive nothing; 0 of 2 commits since"
    assert wants(path, operations=[last]) == Skip(reason=waiting)
    assert wants(path, operations=[ended(wanted(path), changed=True)]).reason == wanted(path).reason
    for number in (10, 11):
        commit(path, instant(number), "commit")
    assert isinstance(wants(path, operations=[last]), TableProcess)


def test_an_archive_that_is_not_needed_any_more_is_dropped(tmp_path: Path) -> None:
    path = table_of(tmp_path, 7)
    stored = operation(wanted(path), origin="coordinator")
    (timeline(path) / f"{instant(0)}_{FIRST + 5000}.commit").unlink()
    answer = HudiProcessFactory().admit(runtime(path), stored)
    assert isinstance(answer, Drop)
    assert answer.reason.startswith("no longer needed: 6 commits are on the active timeline")


def verdict(path: Path, process: TableProcess, **result: Any) -> tuple[Finding, str]:
    found = HudiProcessFactory().verify(runtime(path), process, result)
    return found.finding, found.reason


def archive(path: Path, *numbers: int) -> None:
    """Take commits off the active timeline, and nothing more."""
    for number in numbers:
        for file in timeline(path).glob(f"{instant(number)}*"):
            file.unlink()


def write_history(path: Path, *numbers: int) -> None:
    folder = timeline(path) / "history"
    folder.mkdir()
    instants = [instant(number) for number in numbers]
    name = f"{instants[0]}_{instants[-1]}_0.parquet"
    parquet.write_table(pa.table({"instantTime": instants}), folder / name)
    (folder / "manifest_3").write_text(json.dumps({"files": [{"fileName": name, "fileLen": 1}]}))
    (folder / "_version_").write_text("3")


def test_the_oldest_commit_must_have_left_the_timeline_for_the_archive(tmp_path: Path) -> None:
    path = table_of(tmp_path, 7)
    process = wanted(path)
    still = f"{instant(0)} is still on the active timeline, which has 7 commits"
    assert verdict(path, process) == (Finding.NOT_DONE, still)
    assert verdict(path, process, archived=0) == (Finding.DONE, "Hudi found nothing to archive among 7 commits")
    archive(path, 0, 1, 2)
    lost = f"{instant(0)} is neither on the active timeline nor in the archive: check the table"
    assert verdict(path, process) == (Finding.NOT_DONE, lost)
    write_history(path, 0, 1, 2)
    commit(path, instant(10), "commit")
    assert verdict(path, process) == (
        Finding.DONE, "3 commits were archived; the active timeline has 5, after 7 before",
    )  # fmt: skip
    (timeline(path) / "history" / f"{instant(0)}_{instant(2)}_0.parquet").write_bytes(b"no parquet")
    assert verdict(path, process)[0] is Finding.UNREADABLE


def test_in_layout_1_an_archived_instant_is_in_the_log_of_the_archive(tmp_path: Path) -> None:
    path = table_of(tmp_path, 7, layout=1)
    set_property(path, "hoodie.archivelog.folder", "old")
    process = wanted(path)
    archive(path, 0, 1, 2)
    assert verdict(path, process)[0] is Finding.NOT_DONE
    (path / ".hoodie" / "old").mkdir()
    (path / ".hoodie" / "old" / ".commits_.archive.1_1-0-1").write_bytes(b"#HUDI\x00" + instant(0).encode() + b"\x00")
    assert verdict(path, process) == (
        Finding.DONE, "3 commits were archived; the active timeline has 4, after 7 before",
    )  # fmt: skip
