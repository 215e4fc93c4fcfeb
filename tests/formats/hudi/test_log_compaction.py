# SPDX-License-Identifier: Apache-2.0
"""When logs are compacted: plans on the timeline, those that a compaction overtook, and our own."""

import os
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakehand.formats.hudi import HudiProcessFactory
from lakehand.formats.hudi.snapshot import COMPACTION, LOG_COMPACTION
from lakehand.spi import Failure, Instant, Scheduling, Skip, TableProcess
from tests.formats.hudi.runtime import (
    FILE_LOCK,
    NOON,
    ORDERS_V9,
    MemoryRuntime,
    commit,
    copied,
    finish,
    operation,
    timeline,
)
from tests.kit.sentences import Sentences

PLAN = Instant("20261115220000000")
LATER = "20261115230000000"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A merge-on-read table after two compactions, with a log compaction that nobody has run."""
    path = copied("orders_v9", tmp_path)
    finish(path, ORDERS_V9, "commit")
    leave_plan(path)
    return path


def leave_plan(path: Path, state: str = "requested", at: datetime = NOON) -> None:
    """As Hudi writes it: the plan is of the same kind as a compaction's."""
    file = timeline(path) / f"{PLAN}.logcompaction.{state}"
    file.write_bytes((timeline(path) / f"{ORDERS_V9}.compaction.requested").read_bytes())
    os.utime(file, (at.timestamp(), at.timestamp()))


def decided(path: Path, **runtime: Any) -> TableProcess | Skip:
    return HudiProcessFactory().trigger(MemoryRuntime(path, **runtime), LOG_COMPACTION)


def admitted(path: Path, *, run_times: int = 0, **runtime: Any) -> Any:
    wanted = decided(path, **runtime)
    assert isinstance(wanted, TableProcess), wanted
    return HudiProcessFactory().admit(MemoryRuntime(path, **runtime), operation(wanted, run_times=run_times))


def why_not(path: Path, **runtime: Any) -> str:
    answer = decided(path, **runtime)
    assert isinstance(answer, Skip), answer
    return answer.reason


def test_a_plan_that_nobody_else_would_run_is_run(table: Path, sentences: Sentences) -> None:
    wanted = decided(table)

    assert isinstance(wanted, TableProcess)
    assert (wanted.instant, wanted.job) == (PLAN, "hudi.log_compaction")
    size = {"groups": 2, "files": 6, "bytes": 5920}
    sentences.check("a plan is run", wanted.reason, plan=PLAN, since="2026-11-15 12:00:00 UTC", **size)
    process = admitted(table)
    assert process.parameters["min_blocks"] == 5
    assert process.parameters["stale"] == {}


def test_a_pending_compaction_goes_first(table: Path, sentences: Sentences) -> None:
    [done] = timeline(table).glob(f"{ORDERS_V9}_*.commit")
    done.unlink()

    waiting = admitted(table)
    assert isinstance(waiting, Skip)
    assert waiting.look_again == timedelta(minutes=1)
    first = {"first": "compaction", "plan": ORDERS_V9}
    sentences.check("an admitted plan waits for another", waiting.reason, **first, action="log-compaction")


@pytest.mark.parametrize("newer", ["compaction.requested", "commit"])
def test_a_plan_older_than_a_compaction_is_stale_and_removed_only_under_a_shared_lock(
    table: Path, newer: str, sentences: Sentences
) -> None:
    file = timeline(table) / (f"{LATER}.{newer}" if newer != "commit" else f"{LATER}_{LATER}.commit")
    file.touch()

    failure = admitted(table)
    assert isinstance(failure, Failure)
    sentences.check("the log compaction is stale", failure.message, plan=PLAN, newer=file.name)
    if newer == "commit":
        process = admitted(table, properties=FILE_LOCK)
        assert [*process.parameters["stale"]] == [PLAN]


def test_a_plan_that_someone_has_begun_is_left_alone_for_two_hours_and_one_of_ours_is_not(
    table: Path, sentences: Sentences
) -> None:
    leave_plan(table, "inflight", NOON - timedelta(minutes=90))

    waiting = admitted(table)
    assert isinstance(waiting, Skip)
    assert waiting.look_again == timedelta(minutes=1)
    sentences.check("someone began the plan", waiting.reason, plan=PLAN, since="2026-11-15 10:30:00 UTC")
    assert isinstance(admitted(table, run_times=1), TableProcess)
    leave_plan(table, "inflight", NOON - timedelta(hours=3))
    assert isinstance(admitted(table), TableProcess)


def test_it_counts_as_no_write_and_begins_the_count_anew(table: Path) -> None:
    snapshot = MemoryRuntime(table).snapshot()
    assert (snapshot.commits_since(COMPACTION), snapshot.commits_since(LOG_COMPACTION)) == (1, 1)

    finish(table, PLAN, "deltacommit")
    commit(table, LATER)

    snapshot = MemoryRuntime(table).snapshot()
    assert snapshot.instants_of(LOG_COMPACTION) == [PLAN]
    assert (snapshot.commits_since(COMPACTION), snapshot.commits_since(LOG_COMPACTION)) == (2, 1)
    assert snapshot.pending == ()


def test_our_own_plan_needs_a_lock_and_enough_delta_commits(table: Path, sentences: Sentences) -> None:
    finish(table, PLAN, "deltacommit")
    service = {"scheduling": Scheduling.SERVICE}

    found = {"action": LOG_COMPACTION, "key": "hoodie.write.lock.provider"}
    sentences.check("no plan without a lock", why_not(table, **service), **found)
    few = why_not(table, properties=FILE_LOCK, **service)
    sentences.check("too few delta commits for a log compaction", few, commits=0, needed=5)
    for minute in range(5):
        commit(table, f"2026111523{minute:02}00000")
    wanted = decided(table, properties=FILE_LOCK, **service)
    assert isinstance(wanted, TableProcess)
    sentences.check("enough delta commits for a log compaction", wanted.reason, commits=5, last=PLAN)


@pytest.mark.parametrize(
    ("name", "case"),
    [("events_v9", "no logs in a copy-on-write table"), ("orders_v6", "no log compaction for readers of Hudi 0.x")],
)
def test_tables_that_it_would_hurt_or_not_help_are_refused(
    name: str, case: str, tmp_path: Path, sentences: Sentences
) -> None:
    sentences.check(case, why_not(copied(name, tmp_path)))


def test_it_can_be_switched_off(table: Path, sentences: Sentences) -> None:
    key = "hoodie.table.service.log-compaction.enable"

    sentences.check("the action is off", why_not(table, properties={key: "false"}), key=key, source="table")
