# SPDX-License-Identifier: Apache-2.0
"""Admission: plans that are gone, whose turn it is, and the options that a job gets."""

import json
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from lakehand.formats.hudi import HudiProcessFactory
from lakehand.formats.hudi.snapshot import CLEAN, CLUSTERING, COMPACTION
from lakehand.spi import Action, Drop, Failure, Instant, Operation, Skip, Status, TableProcess
from tests.formats.hudi.runtime import (
    EVENTS_V9,
    FILE_LOCK,
    ORDERS_V6,
    ORDERS_V9,
    TABLES,
    MemoryRuntime,
    asked_for,
    commit,
    copied,
    ended,
    finish,
    operation,
    remove,
    set_property,
    timeline,
)
from tests.kit.sentences import Sentences

COMPACTION_ONLY = frozenset({COMPACTION})


def admitted(table: Path, wanted: Operation, **runtime: Any) -> TableProcess | Skip | Drop | Failure:
    factory = HudiProcessFactory()
    factory.open({"hudi.clean.retain-commits-floor": "3"})
    return factory.admit(MemoryRuntime(table, **runtime), wanted)


def process(table: Path, wanted: Operation, **runtime: Any) -> TableProcess:
    answer = admitted(table, wanted, **runtime)
    assert isinstance(answer, TableProcess), answer
    return answer


def options(table: Path, wanted: Operation, **runtime: Any) -> Mapping[str, str]:
    found = process(table, wanted, **runtime).parameters["options"]
    assert isinstance(found, dict)
    return found


def planning(action: Action, **changes: Any) -> Operation:
    return operation(TableProcess(action=action, parameters={"mode": "plan-and-execute"}), **changes)


def leave_plan(table: Path, action: str, instant: str = "20991115120000000") -> Instant:
    (timeline(table) / f"{instant}.{action}.requested").touch()
    return Instant(instant)


def test_a_request_from_the_wire_is_completed_from_the_table() -> None:
    wanted = asked_for(COMPACTION, ORDERS_V9, resource="spark:4g,4g", parallelism="100", location="/elsewhere")

    found = process(TABLES / "orders_v9", wanted)

    assert (found.job, found.instant, found.conflict_class) == ("hudi.compaction", ORDERS_V9, "table")
    assert found.parameters["location"] == str(TABLES / "orders_v9")
    assert found.parameters["mode"] == "execute"
    assert (found.parameters["resource"], found.parameters["parallelism"]) == ("spark:4g,4g", "100")


def test_a_plan_that_someone_else_completed_is_dropped(tmp_path: Path, sentences: Sentences) -> None:
    table = copied("orders_v9", tmp_path)
    name = finish(table, ORDERS_V9, "commit")

    answer = admitted(table, asked_for(COMPACTION, ORDERS_V9))

    assert isinstance(answer, Drop)
    sentences.check("the plan was completed by someone else", answer.reason, plan=ORDERS_V9, file=name)


def test_a_plan_that_is_gone_is_dropped(tmp_path: Path, sentences: Sentences) -> None:
    table = copied("orders_v9", tmp_path)
    remove(table, ORDERS_V9)

    answer = admitted(table, asked_for(COMPACTION, ORDERS_V9))

    assert isinstance(answer, Drop)
    sentences.check("the plan is gone", answer.reason, plan=ORDERS_V9)


def test_an_instant_of_another_kind_is_no_plan(sentences: Sentences) -> None:
    answer = admitted(TABLES / "orders_v9", asked_for(CLUSTERING, ORDERS_V9))

    assert isinstance(answer, Drop)
    there = f"{ORDERS_V9}.compaction.requested"
    sentences.check("the instant is no such plan", answer.reason, action="clustering", there=there)


def test_after_an_attempt_of_ours_the_timeline_decides_about_a_completed_plan(tmp_path: Path) -> None:
    table = copied("orders_v9", tmp_path)
    finish(table, ORDERS_V9, "commit")

    answer = admitted(table, ended(COMPACTION, ORDERS_V9, Status.PENDING, run_times=1))

    assert isinstance(answer, TableProcess)


def test_a_clean_waits_for_a_pending_compaction(tmp_path: Path, sentences: Sentences) -> None:
    table = copied("orders_v9", tmp_path)
    clean = leave_plan(table, "clean")

    answer = admitted(table, asked_for(CLEAN, clean))

    assert isinstance(answer, Skip)
    sentences.check(
        "an admitted plan waits for another", answer.reason, first="compaction", plan=ORDERS_V9, action="clean"
    )
    assert answer.look_again
    finish(table, ORDERS_V9, "commit")
    assert isinstance(admitted(table, asked_for(CLEAN, clean)), TableProcess)


def test_a_compaction_waits_for_a_clustering_that_we_will_run(tmp_path: Path) -> None:
    table = copied("orders_v9", tmp_path)
    clustering = leave_plan(table, "clustering")
    wanted = asked_for(COMPACTION, ORDERS_V9)

    assert isinstance(admitted(table, wanted), Skip)
    failed = ended(CLUSTERING, clustering, Status.FAILED)
    assert isinstance(admitted(table, wanted, operations=[failed]), TableProcess)
    assert isinstance(admitted(table, wanted, actions=COMPACTION_ONLY), TableProcess)
    assert isinstance(admitted(table, asked_for(CLUSTERING, clustering)), TableProcess)


def test_while_someone_builds_an_index_nothing_runs(tmp_path: Path, sentences: Sentences) -> None:
    table = copied("orders_v9", tmp_path)
    set_property(table, "hoodie.table.metadata.partitions.inflight", "record_index")

    answer = admitted(table, asked_for(COMPACTION, ORDERS_V9))

    assert isinstance(answer, Skip)
    assert answer.look_again == timedelta(minutes=1)
    sentences.check("an index is being built", answer.reason, index="record_index")


def test_a_switched_off_service_waits(tmp_path: Path) -> None:
    off = {"hoodie.table.services.enable": "false"}

    assert isinstance(admitted(TABLES / "orders_v9", asked_for(COMPACTION, ORDERS_V9), properties=off), Skip)


def test_the_metadata_table_and_its_indexes_stay_as_they_are(tmp_path: Path) -> None:
    table = copied("orders_v9", tmp_path)
    found = options(table, asked_for(COMPACTION, ORDERS_V9))

    assert found["hoodie.metadata.enable"] == "true"
    assert found["hoodie.metadata.index.column.stats.enable"] == "true"
    assert found["hoodie.metadata.index.column.stats.column.list"] == "id,p,v,note,ts"
    assert found["hoodie.metadata.global.record.level.index.enable"] == "false"
    assert found["hoodie.metadata.index.async"] == "true"  # never builds an index
    assert found["hoodie.metadata.auto.delete.partitions"] == "false"  # never drops one


def test_a_table_without_metadata_table_gets_none(tmp_path: Path) -> None:
    table = copied("orders_v9", tmp_path)
    set_property(table, "hoodie.table.metadata.partitions", "")

    found = options(table, asked_for(COMPACTION, ORDERS_V9))

    assert {v for k, v in found.items() if k.startswith("hoodie.metadata") and k.endswith("enable")} == {"false"}


@pytest.mark.parametrize(("partitioned", "on"), [("false", "global.record"), ("true", "record")])
def test_the_record_index_keeps_its_kind(partitioned: str, on: str, tmp_path: Path) -> None:
    table = copied("orders_v9", tmp_path)
    set_property(table, "hoodie.table.metadata.partitions", "files,record_index,secondary_index_v")
    definition = {"indexDefinitions": {"record_index": {"indexOptions": {"isPartitioned": partitioned}}}}
    (table / ".hoodie" / ".index_defs" / "index.json").write_text(json.dumps(definition))

    found = options(table, asked_for(COMPACTION, ORDERS_V9))

    kinds = ("global.record", "record")
    assert [k for k in kinds if found[f"hoodie.metadata.{k}.level.index.enable"] == "true"] == [on]
    assert found["hoodie.metadata.index.secondary.enable"] == "true"
    assert found["hoodie.metadata.index.column.stats.enable"] == "false"


def test_version_keys_ordering_and_merging_come_from_the_table() -> None:
    new = options(TABLES / "orders_v9", asked_for(COMPACTION, ORDERS_V9))
    old = options(TABLES / "orders_v6", asked_for(COMPACTION, ORDERS_V6))

    assert (new["hoodie.write.table.version"], old["hoodie.write.table.version"]) == ("9", "6")
    assert new["hoodie.write.auto.upgrade"] == old["hoodie.write.auto.upgrade"] == "false"
    assert new["hoodie.write.record.merge.mode"] == "EVENT_TIME_ORDERING"
    assert new["hoodie.datasource.write.precombine.field"] == old["hoodie.datasource.write.precombine.field"] == "ts"
    assert old["hoodie.datasource.write.payload.class"].endswith("OverwriteWithLatestAvroPayload")
    assert new["hoodie.datasource.write.keygenerator.class"] == "org.apache.hudi.keygen.SimpleKeyGenerator"
    assert new["hoodie.table.service.manager.enabled"] == new["hoodie.compact.inline"] == "false"


def test_without_a_lock_of_the_table_ours_lies_beside_its_metadata() -> None:
    found = options(TABLES / "orders_v9", asked_for(COMPACTION, ORDERS_V9))

    assert found["hoodie.write.lock.provider"].endswith("FileSystemBasedLockProvider")
    assert found["hoodie.write.lock.filesystem.path"] == f"{TABLES}/orders_v9/.hoodie/.aux/lakehand"
    assert found["hoodie.write.concurrency.mode"] == "optimistic_concurrency_control"


def test_the_tables_own_lock_is_used_where_it_has_one() -> None:
    own = {
        "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.ZookeeperBasedLockProvider",
        "hoodie.write.lock.zookeeper.base_path": "/hudi",
    }
    address = {"hoodie.write.lock.zookeeper.url": "zoo1:2181,zoo2:2181"}
    wanted = asked_for(COMPACTION, ORDERS_V9)
    found = options(TABLES / "orders_v9", wanted, properties=own, operators=address)

    assert {key: found[key] for key in (*own, *address)} == {**own, **address}
    assert "hoodie.write.lock.filesystem.path" not in found


@pytest.mark.parametrize(
    ("provider", "case"),
    [
        ("com.example.Lock", "a lock of others"),
        ("org.apache.hudi.x.ZookeeperBasedLockProvider", "a lock without its keys"),
        ("org.apache.hudi.x.InProcessLockProvider", "a lock of one process"),
    ],
)
def test_a_lock_that_cannot_work_is_refused_and_never_replaced(provider: str, case: str, sentences: Sentences) -> None:
    properties = {"hoodie.write.lock.provider": provider}

    answer = admitted(TABLES / "orders_v9", asked_for(COMPACTION, ORDERS_V9), properties=properties)

    assert isinstance(answer, Skip)
    sentences.check(case, answer.reason)


def test_a_clean_never_rolls_back_writes_unless_the_table_allows_it(tmp_path: Path) -> None:
    table = copied("events_v9", tmp_path)
    finish(table, EVENTS_V9, "replacecommit")
    clean = asked_for(CLEAN, leave_plan(table, "clean"))

    assert options(table, clean)["hoodie.clean.failed.writes.policy"] == "NEVER"
    assert options(table, clean)["hoodie.write.concurrency.mode"] == "single_writer"
    lazy = {"hoodie.clean.failed.writes.policy": "LAZY"}
    assert options(table, clean, properties=lazy)["hoodie.clean.failed.writes.policy"] == "LAZY"


@pytest.mark.parametrize(
    ("configured", "asked", "kept"), [("1", None, 3), ("7", "5", 7), ("7", "9", 9), ("7", "-1", 7)]
)
def test_nobody_can_lower_the_retention(configured: str, asked: str | None, kept: int, tmp_path: Path) -> None:
    table = copied("events_v9", tmp_path)
    finish(table, EVENTS_V9, "replacecommit")
    wanted = asked_for(CLEAN, leave_plan(table, "clean"), retain_commits=asked)

    found = process(table, wanted, properties={"hudi.clean.retain-commits": configured})

    assert found.parameters["retain_commits"] == kept


def test_requests_and_properties_may_tune_sizes_and_nothing_else() -> None:
    bad = {"hoodie.compaction.strategy": "com.example.Evil", "hoodie.metadata.enable": "false"}
    wanted = asked_for(COMPACTION, ORDERS_V9, options={"hoodie.compaction.target.io": "100", **bad})

    found = options(TABLES / "orders_v9", wanted, properties={**bad, "hoodie.parquet.page.size": "4096"})

    assert found["hoodie.compaction.target.io"] == "100"
    assert found["hoodie.parquet.page.size"] == "4096"
    assert found["hoodie.metadata.enable"] == "true"
    assert "hoodie.compaction.strategy" not in found


@pytest.mark.parametrize("action", [COMPACTION, CLUSTERING, CLEAN])
def test_no_execution_starts_hudis_file_server_which_listens_on_all_interfaces(action: Action, tmp_path: Path) -> None:
    table = copied("orders_v9", tmp_path)
    remove(table, ORDERS_V9)
    named = options(table, asked_for(action, leave_plan(table, str(action))))
    asked = {"hoodie.embed.timeline.server": "true"}
    planned = options(table, planning(action, origin="api"), properties={**FILE_LOCK, **asked})

    assert named["hoodie.embed.timeline.server"] == planned["hoodie.embed.timeline.server"] == "false"


def test_column_stats_alone_do_not_bring_the_partitions_index_along(tmp_path: Path) -> None:
    table = copied("orders_v9", tmp_path)
    set_property(table, "hoodie.table.metadata.partitions", "column_stats,files")
    switch = "hoodie.metadata.index.column.stats.enable"

    assert options(table, asked_for(COMPACTION, ORDERS_V9))[switch] == "false"
    set_property(table, "hoodie.table.partition.fields", "")
    assert options(table, asked_for(COMPACTION, ORDERS_V9))[switch] == "true"


def test_clustering_that_we_plan_is_ordered_as_configured(tmp_path: Path) -> None:
    properties = {**FILE_LOCK, "hudi.clustering.order-columns": "v, id", "hudi.clustering.order-strategy": "z-order"}

    found = process(TABLES / "events_v9", planning(CLUSTERING, origin="api"), properties=properties)

    assert found.parameters["order_columns"] == "v,id"
    assert found.parameters["order_strategy"] == "z-order"


def test_planning_remembers_what_was_there_before(tmp_path: Path) -> None:
    table = copied("orders_v9", tmp_path)
    remove(table, ORDERS_V9)

    found = process(table, planning(COMPACTION), properties={**FILE_LOCK, "hudi.compaction.delta-commits": "3"})

    assert found.instant is None
    assert found.parameters["may_plan"] is True
    assert found.parameters["before"] == ["20261115213942975"]
    assert found.parameters["seen"] == "20261115214002594"


def test_planning_that_is_no_longer_needed_is_dropped_unless_a_person_asked(
    tmp_path: Path, sentences: Sentences
) -> None:
    table = copied("orders_v9", tmp_path)
    remove(table, ORDERS_V9)
    commit(table, "20991115120000000", "commit")

    answer = admitted(table, planning(COMPACTION), properties=FILE_LOCK)

    assert isinstance(answer, Drop)
    sentences.check("no longer needed", answer.reason, commits=0, needed=5)
    assert isinstance(admitted(table, planning(COMPACTION, origin="api"), properties=FILE_LOCK), TableProcess)


def test_without_a_shared_lock_a_person_can_have_pending_plans_run_but_none_made(
    tmp_path: Path, sentences: Sentences
) -> None:
    table = copied("orders_v9", tmp_path)
    assert process(table, planning(COMPACTION, origin="api")).parameters["may_plan"] is False

    remove(table, ORDERS_V9)
    answer = admitted(table, planning(COMPACTION, origin="api"))

    assert isinstance(answer, Drop)
    sentences.check("no plan is pending, and none is made", answer.reason)


def test_a_plan_that_another_operation_of_ours_completed_names_it(tmp_path: Path, sentences: Sentences) -> None:
    table = copied("orders_v9", tmp_path)
    finish(table, ORDERS_V9, "commit")
    ours = ended(
        COMPACTION, Instant("20261115120000000-compaction"), Status.SUCCEEDED, result={"instants": [ORDERS_V9]}
    )
    answer = admitted(table, asked_for(COMPACTION, ORDERS_V9), operations=[ours])
    assert isinstance(answer, Drop)
    sentences.check("the plan was completed by an operation", answer.reason, plan=ORDERS_V9, operation=7)
