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
from lakehand.formats.hudi.archive import ARCHIVE
from lakehand.spi import Drop, Failure, Finding, Operation, Scheduling, Skip, Status, TableProcess, Verdict
from tests.formats.hudi.runtime import FILE_LOCK, NOON, MemoryRuntime, commit, operation, set_property, timeline
from tests.kit.sentences import Sentences

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


def test_more_commits_than_the_threshold_are_archived_down_to_the_least(tmp_path: Path, sentences: Sentences) -> None:
    sentences.check("few commits", reason(table_of(tmp_path, 6)), commits=6, kept=4, above=6)
    path = table_of(tmp_path, 7)
    archived = {"archived": 3, "first": instant(0), "last": instant(2)}
    sentences.check("archive", wanted(path).reason, commits=7, above=6, **archived)
    commit(path, instant(20), "clean")
    sentences.check("archive", wanted(path).reason, commits=7, above=6, **archived)  # cleans are not commits


def test_what_a_clean_retains_and_the_floor_stay_whatever_is_set(tmp_path: Path, sentences: Sentences) -> None:
    path = table_of(tmp_path, 7)
    retaining = {**SETTINGS, "hudi.clean.retain-commits": "10"}
    sentences.check("few commits", reason(path, properties=retaining), commits=7, kept=12, above=14)
    least = {**SETTINGS, "hudi.archive.min-commits": "1", "hudi.archive.max-commits": "1"}
    few = reason(table_of(tmp_path / "few", 5), properties=least)
    sentences.check("few commits", few, commits=5, kept=4, above=5)


@pytest.mark.parametrize("pending", ["commit.requested", "clustering.requested", "compaction.inflight"])
def test_a_stuck_instant_is_named_with_its_age(pending: str, tmp_path: Path, sentences: Sentences) -> None:
    path = table_of(tmp_path, 9)
    stuck = f"{FIRST + 1}"
    file = timeline(path) / f"{stuck}.{pending}"
    file.touch()
    age(file, hours=50)

    action, state = pending.split(".")
    found = {"commits": 9, "above": 6, "action": action, "stuck": stuck, "state": state, "hours": 50}
    sentences.check("a pending instant keeps all commits", reason(path), **found)


def age(file: Path, *, hours: int) -> None:
    then = NOON.timestamp() - hours * 3600
    os.utime(file, (then, then))


def test_commits_before_a_pending_one_are_archived_and_the_reason_says_what_keeps_the_others(
    tmp_path: Path, sentences: Sentences
) -> None:
    path = table_of(tmp_path, 9)
    file = timeline(path) / f"{FIRST + 3001}.commit.requested"
    file.touch()
    age(file, hours=3)

    found = {"archived": 3, "first": instant(0), "last": instant(2), "pending": FIRST + 3001, "hours": 3}
    sentences.check("a pending instant keeps the other commits", wanted(path).reason, **found)


def test_a_savepoint_keeps_all_from_there_on(tmp_path: Path, sentences: Sentences) -> None:
    path = table_of(tmp_path, 9)
    commit(path, instant(2), "savepoint")
    archived = {"archived": 2, "first": instant(0), "last": instant(1)}
    sentences.check("a savepoint keeps the other commits", wanted(path).reason, **archived, savepoint=instant(2))
    commit(path, instant(0), "savepoint")
    sentences.check("a savepoint keeps all commits", reason(path), savepoint=instant(0))


def test_files_that_were_replaced_must_be_cleaned_first(tmp_path: Path, sentences: Sentences) -> None:
    path = table_of(tmp_path, 9)
    commit(path, str(FIRST + 1), "replacecommit")
    found = {"archived": 1, "first": instant(0), "last": instant(0), "replaced": FIRST + 1}
    sentences.check("replaced files were never cleaned", wanted(path).reason, **found)
    clean(path, 10, kept=instant(0))
    sentences.check("replaced files were kept by a clean", wanted(path).reason, **found, since=instant(0))
    clean(path, 11, kept=instant(5))
    sentences.check("archive", reason(path), commits=10, above=6, archived=6, first=instant(0), last=instant(4))


def test_delta_commits_stay_until_they_are_compacted(tmp_path: Path, sentences: Sentences) -> None:
    path = table_of(tmp_path, 9, kind="MERGE_ON_READ")
    few = {**SETTINGS, "hudi.compaction.delta-commits": "20"}
    sentences.check("no delta commit is compacted", reason(path, properties=few), commits=9, delta=9, kept=20)
    some = {**SETTINGS, "hudi.compaction.delta-commits": "7"}
    sentences.check("some delta commits are not compacted", reason(path, properties=some), archived=2, kept=7)
    commit(path, str(FIRST + 6500), "commit")
    sentences.check("archive", reason(path), commits=10, above=6, archived=6, first=instant(0), last=instant(5))


def test_what_is_newer_than_the_last_compaction_of_the_metadata_table_stays(
    tmp_path: Path, sentences: Sentences
) -> None:
    path = table_of(tmp_path, 9)
    set_property(path, "hoodie.table.metadata.partitions", "files")
    sentences.check("the metadata table was never compacted", reason(path))
    metadata = path / ".hoodie" / "metadata" / ".hoodie" / "timeline"
    metadata.mkdir(parents=True)
    (metadata / f"{FIRST + 7001}_{FIRST + 7002}.commit").touch()  # commits take five seconds here
    archived = {"archived": 3, "first": instant(0), "last": instant(2)}
    sentences.check("the metadata table was compacted at an instant", reason(path), **archived)


def test_archive_needs_service_scheduling_and_a_shared_lock(tmp_path: Path, sentences: Sentences) -> None:
    path = table_of(tmp_path, 9)
    left = reason(path, scheduling=Scheduling.WRITER)
    sentences.check("the action is left to the writer", left, action=ARCHIVE)
    unlocked = {key: value for key, value in SETTINGS.items() if key not in FILE_LOCK}
    without = reason(path, properties=unlocked)
    sentences.check("not done without a lock", without, action=ARCHIVE, key="hoodie.write.lock.provider")
    asked = operation(TableProcess(action=ARCHIVE, parameters={"mode": "plan-and-execute"}), origin="api")
    refused = HudiProcessFactory().admit(runtime(path, properties=unlocked), asked)
    assert isinstance(refused, Failure)
    sentences.check("not done without a lock", refused.message, action=ARCHIVE, key="hoodie.write.lock.provider")
    off = {**SETTINGS, "hoodie.table.service.archive.enable": "false"}
    key = "hoodie.table.service.archive.enable"
    sentences.check("the action is off", reason(path, properties=off), key=key, source="table")


def test_a_pending_clean_plan_goes_first(tmp_path: Path, sentences: Sentences) -> None:
    path = table_of(tmp_path, 9)
    (timeline(path) / f"{instant(20)}.clean.requested").touch()
    sentences.check("another plan goes first", reason(path), action="clean", plan=instant(20))


def test_a_person_needs_no_threshold_and_can_keep_more(tmp_path: Path, sentences: Sentences) -> None:
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
    sentences.check("few commits", refused.message, commits=6, kept=5, above=6)


def ended(process: TableProcess, **result: Any) -> Operation:
    return operation(process, status=Status.SUCCEEDED, result=result, finished_at=NOON)


def test_an_archive_that_found_nothing_is_not_tried_again_before_there_is_more(
    tmp_path: Path, sentences: Sentences
) -> None:
    path = table_of(tmp_path, 7)
    last = ended(wanted(path), changed=False)
    waiting = wants(path, operations=[last])
    assert isinstance(waiting, Skip)
    assert waiting.look_again is None
    sentences.check("the last archive found nothing", waiting.reason, operation=7, commits=0, needed=2)
    assert wants(path, operations=[ended(wanted(path), changed=True)]).reason == wanted(path).reason
    for number in (10, 11):
        commit(path, instant(number), "commit")
    assert isinstance(wants(path, operations=[last]), TableProcess)


def test_an_archive_that_is_not_needed_any_more_is_dropped(tmp_path: Path, sentences: Sentences) -> None:
    path = table_of(tmp_path, 7)
    stored = operation(wanted(path), origin="coordinator")
    (timeline(path) / f"{instant(0)}_{FIRST + 5000}.commit").unlink()
    answer = HudiProcessFactory().admit(runtime(path), stored)
    assert isinstance(answer, Drop)
    sentences.check("no longer needed to archive", answer.reason, commits=6, kept=4, above=6)


def verdict(path: Path, process: TableProcess, **result: Any) -> Verdict:
    return HudiProcessFactory().verify(runtime(path), process, result)


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


def test_the_oldest_commit_must_have_left_the_timeline_for_the_archive(tmp_path: Path, sentences: Sentences) -> None:
    path = table_of(tmp_path, 7)
    process = wanted(path)
    still = verdict(path, process)
    assert still.finding is Finding.NOT_DONE
    sentences.check("the oldest commit is still there", still.reason, oldest=instant(0), commits=7)
    nothing = verdict(path, process, archived=0)
    assert nothing.finding is Finding.DONE
    sentences.check("Hudi archived nothing", nothing.reason, commits=7)
    archive(path, 0, 1, 2)
    lost = verdict(path, process)
    assert lost.finding is Finding.NOT_DONE
    sentences.check("the oldest commit is lost", lost.reason, oldest=instant(0))
    write_history(path, 0, 1, 2)
    commit(path, instant(10), "commit")
    done = verdict(path, process)
    assert done.finding is Finding.DONE
    sentences.check("commits were archived", done.reason, archived=3, now=5, before=7)
    (timeline(path) / "history" / f"{instant(0)}_{instant(2)}_0.parquet").write_bytes(b"no parquet")
    assert verdict(path, process).finding is Finding.UNREADABLE


def test_in_layout_1_an_archived_instant_is_in_the_log_of_the_archive(tmp_path: Path, sentences: Sentences) -> None:
    path = table_of(tmp_path, 7, layout=1)
    set_property(path, "hoodie.archivelog.folder", "old")
    process = wanted(path)
    archive(path, 0, 1, 2)
    assert verdict(path, process).finding is Finding.NOT_DONE
    (path / ".hoodie" / "old").mkdir()
    (path / ".hoodie" / "old" / ".commits_.archive.1_1-0-1").write_bytes(b"#HUDI\x00" + instant(0).encode() + b"\x00")
    done = verdict(path, process)
    assert done.finding is Finding.DONE
    sentences.check("commits were archived", done.reason, archived=3, now=4, before=7)
