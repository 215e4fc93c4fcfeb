# SPDX-License-Identifier: Apache-2.0
"""The format plugin on timelines that real writers left: Hudi 1.2.0 (version 9) and 0.15.0 (version 6)."""

import shutil
from pathlib import Path

import pytest
from pyarrow import fs

from lakehand.domain.tables import TableReference
from lakehand.formats.hudi import HudiFormat
from lakehand.formats.hudi.snapshot import CLEAN, CLUSTERING, COMPACTION, HudiSnapshot
from lakehand.formats.hudi.timeline import State
from lakehand.spi import Action, Instant, Invalid
from lakehand.storage import ArrowStorage, LocalStorage, Storages
from tests.formats.hudi.runtime import (
    EVENTS_V6,
    EVENTS_V9,
    ORDERS_V6,
    ORDERS_V9,
    TABLES,
    commit,
    copied,
    finish,
    set_property,
    timeline,
)

PENDING = [
    ("orders_v9", COMPACTION, ORDERS_V9),
    ("orders_v6", COMPACTION, ORDERS_V6),
    ("events_v9", CLUSTERING, EVENTS_V9),
    ("events_v6", CLUSTERING, EVENTS_V6),
]


def inspected(name: str) -> HudiSnapshot:
    return HudiFormat().inspect(TableReference(location=str(TABLES / name)))


@pytest.mark.parametrize(("name", "action", "instant"), PENDING)
def test_the_pending_plan_is_found_with_its_size(name: str, action: Action, instant: Instant) -> None:
    [plan] = inspected(name).pending

    assert (plan.action, plan.instant, plan.state) == (action, instant, State.REQUESTED)
    assert plan.size.file_groups == plan.size.partitions == 2
    assert plan.size.files >= 2


def test_a_compaction_plan_counts_the_bytes_of_its_log_files() -> None:
    [plan] = inspected("orders_v9").pending

    assert plan.size.files == 6
    assert 1000 < plan.size.bytes < 100_000


@pytest.mark.parametrize("name", ["orders_v9", "orders_v6"])
def test_delta_commits_are_counted_since_the_last_completed_compaction(name: str) -> None:
    table = inspected(name)

    assert len(table.instants_of(COMPACTION)) == 1
    assert table.commits_since(COMPACTION) == table.numbers["delta_commits_since_compaction"] == 3


@pytest.mark.parametrize("name", ["events_v9", "events_v6"])
def test_an_insert_overwrite_is_not_taken_for_a_clustering(name: str) -> None:
    table = inspected(name)

    assert len(table.timeline.completed("replacecommit")) == 2
    assert len(table.instants_of(CLUSTERING)) == 1
    assert table.commits_since(CLUSTERING) == 3
    assert table.commits_since(CLEAN) == 1


def test_a_pending_insert_overwrite_is_no_plan(tmp_path: Path) -> None:
    table = copied("events_v6", tmp_path)
    [overwrite] = [f.instant for f in inspected("events_v6").timeline.completed("replacecommit")][1:]
    (timeline(table) / f"{overwrite}.replacecommit").unlink()

    assert [plan.instant for plan in HudiFormat().inspect(TableReference(location=str(table))).pending] == [EVENTS_V6]


@pytest.mark.parametrize("name", ["orders_v9", "orders_v6"])
def test_probe_and_inspect_give_the_same_token_and_every_step_changes_it(name: str, tmp_path: Path) -> None:
    reader, table = HudiFormat(), copied(name, tmp_path)
    seen = [reader.probe(TableReference(location=str(table)))]
    assert (
        reader.inspect(TableReference(location=str(table))).token
        == seen[0]
        == HudiFormat().probe(TableReference(location=str(table)))
    )

    (timeline(table) / "20991115120000000.deltacommit.requested").touch()
    seen.append(reader.probe(TableReference(location=str(table))))
    commit(table, "20991115120000000")
    seen.append(reader.probe(TableReference(location=str(table))))
    set_property(table, "hoodie.table.metadata.partitions", "files,record_index")
    seen.append(reader.probe(TableReference(location=str(table))))

    assert len(set(seen)) == 4


def test_files_that_are_no_step_of_the_timeline_change_nothing(tmp_path: Path) -> None:
    reader, table = HudiFormat(), copied("orders_v6", tmp_path)
    before = reader.probe(TableReference(location=str(table)))

    (table / ".hoodie" / "lock").touch()
    (table / ".hoodie" / ".20261115214205011.deltacommit.crc").touch()

    assert reader.probe(TableReference(location=str(table))) == before


def test_a_timeline_that_an_upgrade_moved_is_found_again(tmp_path: Path) -> None:
    reader, table = HudiFormat(), copied("orders_v9", tmp_path)
    before = reader.probe(TableReference(location=str(table)))

    (table / ".hoodie" / "timeline").rename(table / ".hoodie" / "elsewhere")
    set_property(table, "hoodie.timeline.path", "elsewhere")

    assert reader.probe(TableReference(location=str(table))) != before
    assert [plan.instant for plan in reader.inspect(TableReference(location=str(table))).pending] == [ORDERS_V9]


def test_a_table_that_vanishes_is_an_error_and_not_a_change(tmp_path: Path) -> None:
    reader, table = HudiFormat(), copied("orders_v9", tmp_path)
    reader.probe(TableReference(location=str(table)))
    shutil.rmtree(table)

    with pytest.raises((OSError, Invalid)):
        reader.probe(TableReference(location=str(table)))


def test_a_plan_that_was_cut_short_is_a_storage_error(tmp_path: Path) -> None:
    table = copied("orders_v9", tmp_path)
    file = timeline(table) / f"{ORDERS_V9}.compaction.requested"
    file.write_bytes(file.read_bytes()[:600])

    [plan] = HudiFormat().inspect(TableReference(location=str(table))).pending
    with pytest.raises(OSError, match=file.name):
        _ = plan.size


def test_a_plan_that_vanishes_while_it_is_read_has_no_size(tmp_path: Path) -> None:
    table = copied("orders_v9", tmp_path)
    [plan] = HudiFormat().inspect(TableReference(location=str(table))).pending

    (timeline(table) / f"{ORDERS_V9}.compaction.requested").unlink()

    assert plan.size.files == 0


def test_a_completed_plan_is_no_longer_pending(tmp_path: Path) -> None:
    table = copied("orders_v6", tmp_path)
    finish(table, ORDERS_V6, "commit")

    snapshot = HudiFormat().inspect(TableReference(location=str(table)))

    assert not snapshot.pending
    assert snapshot.commits_since(COMPACTION) == 1


def test_pyarrow_and_the_operating_system_see_the_same_files(tmp_path: Path) -> None:
    table = copied("orders_v9", tmp_path)
    arrow, local, folder = ArrowStorage(fs.LocalFileSystem()), LocalStorage(), str(timeline(table))

    assert sorted(arrow.names(folder)) == sorted(local.names(folder))
    assert {(e.name, e.size) for e in arrow.entries(folder)} == {(e.name, e.size) for e in local.entries(folder)}
    assert arrow.read(f"{folder}/{ORDERS_V9}.compaction.requested") == local.read(
        f"{folder}/{ORDERS_V9}.compaction.requested"
    )
    with pytest.raises(FileNotFoundError):
        arrow.names(f"{folder}/nowhere")


def test_a_file_uri_is_this_machine_and_an_unknown_scheme_is_refused() -> None:
    assert (
        HudiFormat().inspect(TableReference(location=f"file://{TABLES}/orders_v9")).token
        == inspected("orders_v9").token
    )
    with pytest.raises(Invalid, match="nosuch://bucket"):
        HudiFormat().probe(TableReference(location="nosuch://bucket/table"))


def test_one_bucket_is_one_client_whatever_its_scheme_is_called() -> None:
    storages = Storages({"s3.region": "us-east-1"})

    (first, path), (second, _) = storages.of("s3a://lake/orders/daily"), storages.of("s3://lake/events")

    assert first is second
    assert path == "lake/orders/daily"
