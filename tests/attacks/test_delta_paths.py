# SPDX-License-Identifier: Apache-2.0
"""Delta tables whose logs name files elsewhere, and tables that are exchanged: each job stops with the reason.

Delta itself was seen to delete by ``..``, by ``%2E%2E``, by the folder of a deletion vector, and through links.
Attacks that do not exist: tables below for rewrites, which read what the log names; paths in the log for a full vacuum,
which deletes what our own listing found; UniForm, whose tables are refused at their admission.
"""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehand.jobs.boundary import OutsideTable
from lakehand.jobs.delta import tables, vacuum
from lakehand.jobs.job import Job
from lakehand.jobs.paths import canonical
from lakehand.testing.harness import boundary_parameter
from tests import delta_tables as delta
from tests import small_tables
from tests.attacks.every_job import DELTA, run
from tests.attacks.real_tables import RealTable
from tests.attacks.scene import OLD, fingerprint, nothing_changes
from tests.kit.interruptions import Interruptions, run_job
from tests.kit.tiers import long_values

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")]
ACTIONS = ("optimize", "z-order", "purge", "checkpoint", "clean-log", "vacuum")
LONG_AGO = int((time.time() - OLD) * 1000)
NAME = "0" * tables.NAME_LENGTH  # a deletion vector's, as the log has it
VECTOR = "deletion_vector_00000000-0000-0000-0000-000000000000.bin"


@pytest.fixture
def real(real_table: Callable[[str], RealTable]) -> RealTable:
    real = real_table("delta")
    real.put_back()
    return real


def parameters(table: Path, **more: Any) -> dict[str, Any]:
    """As they are admitted, for any of the jobs."""
    [identity] = {one["metaData"]["id"] for one in delta.described(table) if "metaData" in one}
    version = {"version": len(delta.commits(table)) - 1}
    return {**DELTA, "identity": identity, "before": version, "boundary": boundary_parameter(str(table)), **more}


def commit(real: RealTable, *actions: dict[str, Any]) -> None:
    """As a hostile or careless writer commits, ten days ago."""
    file = delta.log(real.path) / f"{len(delta.commits(real.path)):020d}.json"
    info = {"commitInfo": {"timestamp": LONG_AGO, "operation": "WRITE", "operationParameters": {}}}
    file.write_text("".join(json.dumps(one) + "\n" for one in (info, *actions)))
    os.utime(file, (LONG_AGO / 1000, LONG_AGO / 1000))
    delta.forget(real.spark)


def added(path: str, vector: dict[str, Any] | None = None) -> dict[str, Any]:
    known = {"path": path, "partitionValues": {}, "size": 900, "modificationTime": LONG_AGO, "dataChange": True}
    return {"add": known | ({"deletionVector": vector} if vector else {})}


def removed(path: str, vector: dict[str, Any] | None = None) -> dict[str, Any]:
    known = {"path": path, "deletionTimestamp": LONG_AGO, "dataChange": True, "size": 900}
    return {"remove": known | ({"deletionVector": vector} if vector else {})}


def vector(kind: str, where: str) -> dict[str, Any]:
    return {"storageType": kind, "pathOrInlineDv": where, "offset": 1, "sizeInBytes": 10, "cardinality": 1}


# Entries of the log, and what each leads to.
FOREIGN: dict[str, Callable[[Path], tuple[tuple[Any, ...], str]]] = {
    "absolute": lambda others: ((f"{others}/a.parquet",), f"{others}/a.parquet"),
    "uri": lambda others: ((f"file://{others}/b.parquet",), f"file://{others}/b.parquet"),
    "up": lambda _: (("../../outside/c.parquet",), "../../outside/c.parquet"),
    "up-encoded": lambda _: (("%2E%2E/.%2e/outside/d.parquet",), "../../outside/d.parquet"),
    "absolute-encoded": lambda others: ((f"%2F{str(others)[1:]}/e.parquet",), f"{others}/e.parquet"),
    "vector": lambda others: (("f.parquet", vector("p", f"file:{others}/{VECTOR}")), f"file:{others}/{VECTOR}"),
    "vector-up": lambda _: (("g.parquet", vector("u", f"../../more{NAME}")), "../../more/deletion_vector"),
}


def test_a_rewrite_stops_at_a_live_file_outside_of_the_table(real: RealTable) -> None:
    found = [entry(real.outside) for entry in FOREIGN.values()]
    commit(real, *(added(*entry) for entry, _ in found))
    given = parameters(real.path)

    snapshot = tables.newest_version(job := Job(real.spark.newSession(), given))
    odd = {canonical(path) for path in tables.odd_paths(job, snapshot)}
    assert odd == {"f.parquet", "g.parquet", *(canonical(path) for _, path in found)}
    with (
        nothing_changes(real.top),
        pytest.raises(OutsideTable, match=f"names {len(FOREIGN)} files outside of .*, not ours to rewrite: .*outside"),
    ):
        run("delta-optimize", given, real.spark.newSession())


@pytest.mark.parametrize("dry_run", [False, *long_values(True)])
def test_a_lite_vacuum_stops_at_a_removed_file_outside_of_the_table(real: RealTable, dry_run: bool) -> None:
    commit(real, *(removed(*FOREIGN[kind](real.outside)[0]) for kind in ("up", "up-encoded", "vector-up")))
    with nothing_changes(real.top), pytest.raises(OutsideTable, match=r"names 3 files outside of .*, not ours to del"):
        run("delta-vacuum", parameters(real.path, dry_run=dry_run), real.spark.newSession())


@pytest.mark.long
def test_removed_files_by_absolute_paths_are_left_and_counted(real: RealTable) -> None:
    commit(real, removed(f"file:{real.outside}/victim.parquet"), removed(f"{real.outside}/{VECTOR}"))
    before = fingerprint(real.outside)

    done = real.harness(delta__vacuum__mode="lite").serve("vacuum")

    assert fingerprint(real.outside) == before
    assert (done.result["files_deleted"], done.result["left_outside"]) == (4, 2)
    assert delta.data_files(real.path) == {*delta.live_files(real.path), "part-lost.parquet"}


def test_a_link_made_after_the_last_check_adds_no_file_to_a_full_vacuum(
    real: RealTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def attack(job: Job, found: list[str]) -> None:
        calls.append(found)
        if len(calls) == 2:
            (real.path / "more").symlink_to(real.outside)

    monkeypatch.setattr(vacuum, "check_list", attack)
    before = fingerprint(real.outside)
    run("delta-vacuum", parameters(real.path, mode="full", confirm=True), real.spark.newSession())
    assert fingerprint(real.outside) == before
    assert delta.data_files(real.path) == delta.live_files(real.path)


def test_another_table_in_the_same_folder_stops_every_job(real: RealTable) -> None:
    given = parameters(real.path)
    other = small_tables.delta(real.path.with_name("other"), commits=2)
    for file in delta.log(real.path).iterdir():
        file.unlink()
    for file in delta.log(other).iterdir():
        file.rename(delta.log(real.path) / file.name)
    delta.forget(real.spark)
    with nothing_changes(real.top):
        for action in ACTIONS:
            for mode in ("lite", "full"):
                with pytest.raises(OutsideTable, match=f"another table is at .*admitted for {given['identity']}"):
                    run(f"delta-{action}", {**given, "mode": mode}, real.spark.newSession())


# The last step before each function that commits or deletes: what happens there is seen right after it.
# (Of clean-log, which needs a log with checkpoints: tests/jobs/delta/test_clean_log.py.)
STEPS = {"optimize": "optimize", "checkpoint": "writing", "vacuum": "deleting"}


@pytest.mark.parametrize("action", ["optimize", "checkpoint", *long_values("vacuum")])
def test_a_link_that_is_made_in_the_middle_stops_the_job(real: RealTable, action: str) -> None:
    given, link = parameters(real.path, mode="full", confirm=True), real.path / "more"
    before: dict[str, str] = {}

    def attack() -> None:
        link.symlink_to(real.outside)
        before.update(fingerprint(real.top))

    with pytest.raises(OutsideTable, match=f"{link} is a link to {real.outside}"):
        run_job(real.spark, f"delta.{action}", given, Interruptions(hooks={STEPS[action]: attack}))
    assert fingerprint(real.top) == before


@pytest.mark.long
def test_a_table_behind_a_link_is_served_where_it_is(real: RealTable) -> None:
    link = real.path.with_name("link")
    link.symlink_to(real.path)
    given = parameters(real.path, boundary=boundary_parameter(str(link)))
    for action, tag in (("z-order", "8-x"), ("vacuum", "9-x")):
        run(f"delta-{action}", {**given, "operation_tag": tag}, real.spark.newSession())
    assert delta.operations(real.path)[-3:] == ["OPTIMIZE", "VACUUM START", "VACUUM END"]
    assert link.readlink() == real.path


@pytest.mark.long
def test_a_shallow_clone_is_rewritten_only_if_an_operator_names_the_folder_of_its_files(
    spark: SparkSession, real: RealTable
) -> None:
    clone = real.path.with_name("clone")
    spark.sql(f"CREATE TABLE {delta.quoted(clone)} SHALLOW CLONE {delta.quoted(real.path)}").collect()
    before, facts = fingerprint(real.path), rows(spark, clone)
    with pytest.raises(OutsideTable, match="an operator can name their folder in its property extra-locations"):
        run("delta-z-order", parameters(clone), spark.newSession())
    assert delta.operations(clone) == ["CLONE"]

    allowed = boundary_parameter(str(clone), extra=str(real.path))
    assert run("delta-z-order", parameters(clone, boundary=allowed), spark.newSession())["nothing_to_do"] is False
    assert fingerprint(real.path) == before
    assert rows(spark, clone) == facts


def rows(spark: SparkSession, table: Path) -> list[Any]:
    return sorted(spark.read.format("delta").load(str(table)).collect())
