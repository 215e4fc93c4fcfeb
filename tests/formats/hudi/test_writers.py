# SPDX-License-Identifier: Apache-2.0
"""Writers that can fail beside a clustering are warned of in the reason of each decision, where it can be known."""

import os
from pathlib import Path

import pytest

from lakehand.formats.hudi import HudiProcessFactory
from lakehand.formats.hudi.snapshot import CLUSTERING
from tests.formats.hudi.runtime import EVENTS_V9, FILE_LOCK, NOON, TABLES, MemoryRuntime, copied, finish, timeline
from tests.kit.sentences import TIME, Sentences

BESIDE = "20261115214200000"


def reason(table: Path, **runtime: dict[str, str]) -> str:
    return HudiProcessFactory().trigger(MemoryRuntime(table, **runtime), CLUSTERING).reason  # type: ignore[arg-type]


def set_times(table: Path, **seconds: int) -> None:
    """Seconds before noon, for the files of an instant."""
    for file in timeline(table).iterdir():
        os.utime(file, (NOON.timestamp() - 10_000, NOON.timestamp() - 10_000))
    for name, before in seconds.items():
        for file in timeline(table).glob(f"{name.removeprefix('_')}*"):
            os.utime(file, (NOON.timestamp() - before, NOON.timestamp() - before))


def test_clusterings_without_a_shared_lock_are_warned_of(sentences: Sentences) -> None:
    plan = {"plan": EVENTS_V9, "since": TIME}
    sentences.check("a clustering plan without a lock", reason(TABLES / "events_v9"), **plan)
    sentences.check("a clustering plan", reason(TABLES / "events_v9", properties=FILE_LOCK), **plan)


def test_a_table_that_nobody_clusters_is_not_warned_of(sentences: Sentences) -> None:
    sentences.check("no clustering plan, and there was none", reason(TABLES / "orders_v9"))


@pytest.mark.parametrize(("age", "is_reported"), [(600, True), (10, False)])
def test_a_write_given_up_beside_a_pending_clustering_is_reported(
    age: int, is_reported: bool, tmp_path: Path, sentences: Sentences
) -> None:
    table = copied("events_v9", tmp_path)
    (timeline(table) / f"{BESIDE}.commit.requested").touch()
    set_times(table, **{f"_{EVENTS_V9}": 1000, f"_{BESIDE}": age})

    message = reason(table, properties=FILE_LOCK)

    plan = {"plan": EVENTS_V9, "since": TIME}
    if is_reported:
        sentences.check("a write was given up beside a clustering plan", message, **plan, write=BESIDE)
    else:
        sentences.check("a clustering plan", message, **plan)


def test_a_write_that_went_on_is_not_reported(tmp_path: Path, sentences: Sentences) -> None:
    table = copied("events_v9", tmp_path)
    (timeline(table) / f"{BESIDE}.commit.requested").touch()
    (timeline(table) / f"{BESIDE}.inflight").touch()
    set_times(table, **{f"_{EVENTS_V9}": 1000, f"_{BESIDE}": 600})

    sentences.check("a clustering plan", reason(table, properties=FILE_LOCK), plan=EVENTS_V9, since=TIME)


def test_a_write_that_was_given_up_after_the_clustering_is_not_reported(tmp_path: Path, sentences: Sentences) -> None:
    table = copied("events_v9", tmp_path)
    finish(table, EVENTS_V9, "replacecommit")
    (timeline(table) / f"{BESIDE}.commit.requested").touch()
    set_times(table, **{f"_{EVENTS_V9}": 1000, f"_{BESIDE}": 600})

    sentences.check("no clustering plan", reason(table, properties=FILE_LOCK), last=EVENTS_V9)
