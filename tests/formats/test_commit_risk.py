# SPDX-License-Identifier: Apache-2.0
"""Where two drivers that commit at once could lose a commit, no action commits: it is refused with the way out."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from lakehand.domain.tables import TableReference
from lakehand.formats.hudi import HudiProcessFactory
from lakehand.spi import Action, Catalog, Failure, Format, ProcessFactory, Scheduling, Skip, TableProcess, TableRuntime
from tests.formats.delta.logs import MB, LogTable, adds, remove
from tests.formats.hudi import runtime as hudi
from tests.formats.hudi.runtime import MemoryRuntime, copied
from tests.formats.test_refusals import MAKE, Subject, request
from tests.kit.sentences import TIME, Sentences

# format, an action that commits
COMMITTING = [
    ("delta", "vacuum"), ("delta", "optimize"), ("iceberg", "expire-snapshots"), ("paimon", "expire-snapshots"),
]  # fmt: skip
ATOMIC = {"delta": ["hdfs", "abfs", "gs"], "iceberg": ["hdfs"], "paimon": ["hdfs"]}


def subject(name: str, folder: Path, scheme: str, properties: Mapping[str, str] | None = None) -> Subject:
    """A table that is read here, and registered elsewhere: decisions about commits depend on its location alone."""
    factory, table = MAKE[name](folder, properties or {})
    table.table = replace(table.table, spec=replace(table.table.spec, location=f"{scheme}://lake/shop/orders"))
    return factory, table


def admitted(factory: ProcessFactory, table: TableRuntime, action: str, **parameters: bool) -> object:
    return factory.admit(table, request(action, **parameters))


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
@pytest.mark.parametrize(("name", "action"), COMMITTING)
def test_what_a_person_asks_for_is_refused_with_the_way_out(
    name: str, action: str, scheme: str, tmp_path: Path
) -> None:
    answer = admitted(*subject(name, tmp_path, scheme), action)
    text = answer.message if isinstance(answer, Failure) else getattr(answer, "reason", "")
    assert f"{name}.only-writer=true" in text, answer
    assert not isinstance(answer, TableProcess)


@pytest.mark.parametrize(("name", "action"), COMMITTING)
def test_it_runs_where_an_operator_says_that_nobody_else_writes(name: str, action: str, tmp_path: Path) -> None:
    answer = admitted(*subject(name, tmp_path, "s3a", {f"{name}.only-writer": "true"}), action)
    text = str(getattr(answer, "message", "")) + str(getattr(answer, "reason", ""))
    assert "only-writer" not in text


@pytest.mark.parametrize(("name", "scheme"), [(name, scheme) for name, them in ATOMIC.items() for scheme in them])
def test_storage_that_commits_atomically_is_no_risk(name: str, scheme: str, tmp_path: Path) -> None:
    action = next(action for one, action in COMMITTING if one == name)
    answer = admitted(*subject(name, tmp_path, scheme), action)
    assert "only-writer" not in str(getattr(answer, "message", "")) + str(getattr(answer, "reason", ""))


def test_the_decision_says_what_is_needed_and_why_it_is_not_done(tmp_path: Path, sentences: Sentences) -> None:
    decided = decide_vacuum(tmp_path)
    assert isinstance(decided, Skip)
    ways_out = {"option": "spark.delta.logStore.s3a.impl", "key": "delta.only-writer=true"}
    sentences.check("a commit of Delta could be lost", decided.reason, removed=1, **ways_out)


def test_a_log_store_that_is_safe_on_s3_is_no_risk(tmp_path: Path) -> None:
    assert isinstance(decide_vacuum(tmp_path, log_store="io.delta.storage.S3DynamoDBLogStore"), TableProcess)


def test_a_log_store_that_nobody_knows_is_a_risk(tmp_path: Path) -> None:
    assert isinstance(decide_vacuum(tmp_path, log_store="io.delta.storage.S3DynamoDbLogStore"), Skip)


def decide_vacuum(folder: Path, log_store: str = "") -> TableProcess | Skip:
    table = LogTable(folder / "t", adds(3, MB), days_ago=40)
    table.commit(remove("part-0.parquet", days_ago=20), days_ago=20)
    harness = table.harness()
    harness.factory.open({"delta.log-store": log_store} if log_store else {})
    runtime = harness.runtime()
    runtime.table = replace(runtime.table, spec=replace(runtime.table.spec, location="s3a://lake/t"))
    return harness.factory.trigger(runtime, Action("vacuum"))


@pytest.mark.parametrize(("name", "action"), [("delta", "vacuum"), ("iceberg", "expire-snapshots")])
def test_a_dry_run_is_always_possible(name: str, action: str, tmp_path: Path) -> None:
    answer = admitted(*subject(name, tmp_path, "s3"), action, dry_run=True)
    assert isinstance(answer, TableProcess), answer


@pytest.mark.parametrize("kind", ["jdbc", "rest", "hive"])
def test_an_iceberg_table_of_a_catalog_is_safe_anywhere(kind: str, tmp_path: Path) -> None:
    factory, table = subject("iceberg", tmp_path, "s3")
    catalog = Catalog(name="central", format=Format("iceberg"), type=kind)
    table.reference = TableReference(location=table.table.location, catalog=catalog, db_name="a", table_name="b")
    assert isinstance(admitted(factory, table, "expire-snapshots"), TableProcess)


@pytest.mark.parametrize("name", ["iceberg", "paimon"])
def test_removing_orphans_commits_nothing_and_is_allowed(name: str, tmp_path: Path) -> None:
    answer = admitted(*subject(name, tmp_path, "s3"), "remove-orphans")
    assert "only-writer" not in str(getattr(answer, "message", "")) + str(getattr(answer, "reason", ""))


MYSQL, MARIADB, POSTGRESQL = "jdbc:mysql://db/p", "jdbc:mariadb://db/p", "jdbc:postgresql://db/p"


@pytest.mark.parametrize(
    ("kind", "uri", "lock"),
    [
        ("filesystem", "", "true"),
        ("jdbc", MYSQL, "false"),
        ("jdbc", MYSQL, ""),
        ("jdbc", MARIADB, "true"),  # Paimon has no lock for these names
        ("jdbc", POSTGRESQL, "true"),
        ("jdbc", "jdbc:sqlite:/shared.db", "true"),  # two applications on it block each other
        ("rest", "", "true"),
    ],
)
def test_a_paimon_catalog_without_a_lock_that_works_protects_nobody(
    kind: str, uri: str, lock: str, tmp_path: Path
) -> None:
    answer = admitted(*paimon_of_catalog(tmp_path, kind, uri, lock), "expire-snapshots")
    text = answer.message if isinstance(answer, Failure) else getattr(answer, "reason", "")
    assert "paimon.only-writer=true" in text


@pytest.mark.parametrize(("kind", "uri"), [("jdbc", MYSQL), ("hive", "thrift://x")])
def test_a_paimon_catalog_with_a_lock_is_safe_anywhere(kind: str, uri: str, tmp_path: Path) -> None:
    answer = admitted(*paimon_of_catalog(tmp_path, kind, uri, "true"), "expire-snapshots")
    assert "only-writer" not in str(getattr(answer, "message", "")) + str(getattr(answer, "reason", ""))


def paimon_of_catalog(folder: Path, kind: str, uri: str, lock: str) -> Subject:
    factory, table = subject("paimon", folder, "s3")
    properties = {"uri": uri, "lock.enabled": lock}
    catalog = Catalog(name="central", format=Format("paimon"), type=kind, properties=properties)
    table.reference = replace(table.reference, catalog=catalog, db_name="a", table_name="b")  # read where it is
    return factory, table


FILE_LOCK = {
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
    "hoodie.write.lock.filesystem.path": "s3a://lake/locks",
}
ZOOKEEPER = {
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.ZookeeperBasedLockProvider",
    "hoodie.write.lock.zookeeper.url": "zookeeper.internal",
    "hoodie.write.lock.zookeeper.base_path": "/locks",
}


@pytest.mark.parametrize("lock", [{}, FILE_LOCK])
def test_a_plan_of_a_hudi_writer_waits_for_a_lock_that_works_on_an_object_store(
    lock: Mapping[str, str], tmp_path: Path, sentences: Sentences
) -> None:
    decided = decide_compaction(tmp_path, lock)
    assert isinstance(decided, Skip)
    plan = {"plan": hudi.ORDERS_V9, "since": TIME}
    sentences.check("a file lock of Hudi on an object store", decided.reason, **plan, key="hudi.only-writer=true")


def test_a_lock_across_processes_or_no_other_writer_lets_hudi_plans_run(tmp_path: Path) -> None:
    for number, properties in enumerate([{"hudi.only-writer": "true"}, ZOOKEEPER]):
        assert isinstance(decide_compaction(tmp_path / str(number), properties), TableProcess), properties


def decide_compaction(folder: Path, properties: Mapping[str, str]) -> TableProcess | Skip:
    table = MemoryRuntime(copied("orders_v9", folder), operators=properties)
    return HudiProcessFactory().trigger(moved_to_s3(table), Action("compaction"))


def moved_to_s3(table: MemoryRuntime) -> MemoryRuntime:
    """As far as decisions see: what is read stays where it is."""
    table.table = replace(table.table, spec=replace(table.table.spec, location="s3a://lake/t"))
    return table


PLANNED_BY_US = ("clean", "archive")  # one with plans on the timeline, and one without


@pytest.mark.parametrize("action", PLANNED_BY_US)
def test_hudi_work_that_we_plan_is_refused_with_the_way_out_and_done_where_nobody_else_writes(
    action: str, tmp_path: Path
) -> None:
    refused = plan(tmp_path / "refused", action, {})
    allowed = plan(tmp_path / "allowed", action, {"hudi.only-writer": "true"})
    assert isinstance(refused, Skip)
    assert "hudi.only-writer=true" in refused.reason
    assert "lock" not in allowed.reason, allowed
    assert isinstance(allowed, TableProcess) or action == "archive", "too few commits for an archive"


def plan(folder: Path, action: str, properties: Mapping[str, str]) -> TableProcess | Skip:
    path = copied("orders_v9", folder)
    hudi.remove(path, hudi.ORDERS_V9)  # the plan of its writer
    thresholds = {"hudi.clean.commits": "1", "hudi.clean.retain-commits": "2"}
    table = MemoryRuntime(path, operators={**thresholds, **properties}, scheduling=Scheduling.SERVICE)
    return HudiProcessFactory().trigger(moved_to_s3(table), Action(action))
