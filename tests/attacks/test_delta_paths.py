# SPDX-License-Identifier: Apache-2.0
"""Delta tables whose logs name files elsewhere, and tables that are exchanged: each job stops with the reason.

Delta itself was seen to delete by ``..``, by ``%2E%2E``, by the folder of a deletion vector, and through links.
"""

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehand.formats.delta import DeltaFormat, DeltaProcessFactory
from lakehand.jobs.attempt import job_called
from lakehand.jobs.boundary import OutsideTable
from lakehand.jobs.delta import listing, vacuum
from lakehand.jobs.job import Job
from lakehand.spi import Format, TableSpec
from lakehand.testing.harness import PluginHarness, boundary_parameter
from tests import delta_tables as delta
from tests.attacks.scene import OLD, fingerprint, linked, make_old, nested
from tests.kit.tiers import long_values

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")]

ABSENT = {
    ("optimize", "table below"): "reads the files that its log names, and lists no folder; so do z-order and purge",
    ("vacuum", "absolute foreign path"): "Delta deletes no file by an absolute path outside: it is counted and left",
    ("vacuum full", "path in the log"): "deletes only what our own listing of the folder found, whatever the log names",
    ("any", "UniForm"): "a table that is also kept as Iceberg is refused when its operation is admitted",
}
REWRITES = ("optimize", "z_order", "purge")
OTHERS = (*REWRITES, "checkpoint", "clean_log")
VACUUMS = ("lite", "full")
LONG_AGO = int((time.time() - OLD) * 1000)
NAME = "0" * 20  # a deletion vector's, as the log has it
VECTOR = "deletion_vector_00000000-0000-0000-0000-000000000000.bin"


@pytest.fixture(scope="module")
def template(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten days ago four files became one."""
    path = tmp_path_factory.mktemp("template") / "template"
    delta.make_table(spark, path, commits=1, files=4)
    spark.newSession().sql(f"OPTIMIZE {delta.quoted(path)}").collect()
    delta.age(spark, path, 10)
    return path


@pytest.fixture
def table(spark: SparkSession, template: Path, tmp_path: Path) -> Iterator[Path]:
    yield Path(shutil.copytree(template, tmp_path / "lake" / "it %20 {table}"))
    delta.forget(spark)


@pytest.fixture
def victims(tmp_path: Path, template: Path) -> Path:
    folder = tmp_path / "victims"
    folder.mkdir()
    for name in ("a.parquet", VECTOR):
        shutil.copy(next(template.glob("part-*.parquet")), folder / name)
    make_old(folder)
    return folder


def parameters(table: Path, **more: Any) -> dict[str, Any]:
    """As they are admitted, for any of the jobs."""
    [identity] = {one["metaData"]["id"] for one in delta.described(table) if "metaData" in one}
    return {
        "operation_tag": "7-x", "before": {"version": len(delta.commits(table)) - 1}, "identity": identity,
        "columns": ["id"], "small_bytes": 1000, "target_bytes": 2000, "retain_hours": 168, "mode": "lite",
        "dry_run": False, "boundary": boundary_parameter(str(table)), "keep_from": 1, "older_than": LONG_AGO, **more,
    }  # fmt: skip


def run(spark: SparkSession, name: str, given: dict[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = job_called(f"delta.{name}")(Job(spark.newSession(), given))
    return result


def commit(spark: SparkSession, table: Path, *actions: dict[str, Any]) -> None:
    """As a hostile or careless writer commits, ten days ago."""
    file = delta.log(table) / f"{len(delta.commits(table)):020d}.json"
    info = {"commitInfo": {"timestamp": LONG_AGO, "operation": "WRITE", "operationParameters": {}}}
    file.write_text("".join(json.dumps(one) + "\n" for one in (info, *actions)))
    os.utime(file, (LONG_AGO / 1000, LONG_AGO / 1000))
    delta.forget(spark)


def added(path: str, vector: dict[str, Any] | None = None) -> dict[str, Any]:
    known = {"path": path, "partitionValues": {}, "size": 900, "modificationTime": LONG_AGO, "dataChange": True}
    return {"add": known | ({"deletionVector": vector} if vector else {})}


def removed(path: str, vector: dict[str, Any] | None = None) -> dict[str, Any]:
    known = {"path": path, "deletionTimestamp": LONG_AGO, "dataChange": True, "size": 900}
    return {"remove": known | ({"deletionVector": vector} if vector else {})}


def vector(kind: str, where: str) -> dict[str, Any]:
    return {"storageType": kind, "pathOrInlineDv": where, "offset": 1, "sizeInBytes": 10, "cardinality": 1}


@contextmanager
def untouched(table: Path) -> Iterator[None]:
    """Nothing outside of the table changes, and the table itself neither."""
    lake = table.parents[1]
    before = fingerprint(lake)
    yield
    assert fingerprint(lake) == before


FOREIGN: dict[str, Callable[[Path], tuple[Any, ...]]] = {
    "absolute": lambda victims: (f"{victims}/a.parquet",),
    "uri": lambda victims: (f"file://{victims}/a.parquet",),
    "up": lambda _: ("../../victims/a.parquet",),
    "up-encoded": lambda _: ("%2E%2E/.%2e/victims/a.parquet",),
    "absolute-encoded": lambda victims: (f"%2F{str(victims)[1:]}/a.parquet",),
    "vector": lambda victims: ("b.parquet", vector("p", f"file:{victims}/{VECTOR}")),
    "vector-up": lambda _: ("b.parquet", vector("u", f"../../victims{NAME}")),
}


@pytest.mark.parametrize(
    "kind", ["absolute", "up-encoded", "vector", *long_values("uri", "up", "absolute-encoded", "vector-up")]
)
def test_a_rewrite_stops_at_a_live_file_outside_of_the_table(
    spark: SparkSession, table: Path, victims: Path, kind: str
) -> None:
    commit(spark, table, added(*FOREIGN[kind](victims)))
    given = parameters(table)
    with untouched(table):
        for action in REWRITES:
            with pytest.raises(OutsideTable, match=r"names 1 files outside of .*, not ours to rewrite: .*victims"):
                run(spark, action, given)


@pytest.mark.parametrize("kind", ["up-encoded", *long_values("up", "vector-up")])
def test_a_lite_vacuum_stops_at_a_removed_file_outside_of_the_table(
    spark: SparkSession, table: Path, victims: Path, kind: str
) -> None:
    commit(spark, table, removed(*FOREIGN[kind](victims)))
    with untouched(table):
        for dry_run in (True, False):
            with pytest.raises(OutsideTable, match=r"names 1 files outside of .*, not ours to delete: .*victims/"):
                run(spark, "vacuum", parameters(table, dry_run=dry_run))


def test_removed_files_by_absolute_paths_are_left_and_counted(spark: SparkSession, table: Path, victims: Path) -> None:
    commit(spark, table, removed(f"file:{victims}/a.parquet"), removed(f"{victims}/{VECTOR}"))
    before = fingerprint(victims)

    done = harness(spark, table).serve("vacuum")

    assert fingerprint(victims) == before
    assert (done.result["files_deleted"], done.result["left_outside"]) == (4, 2)
    assert delta.data_files(table) == delta.live_files(table)


@pytest.mark.long
def test_a_link_made_in_the_middle_of_a_full_vacuum_stops_it(
    spark: SparkSession, table: Path, victims: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = listing.live_files

    def attack(job: Job) -> list[str]:
        (table / "more").symlink_to(victims)
        return real(job)

    monkeypatch.setattr(listing, "live_files", attack)
    before, files = fingerprint(victims), delta.data_files(table)
    with pytest.raises(OutsideTable, match=f"{table}/more is a link to {victims}"):
        run(spark, "vacuum", parameters(table, mode="full", confirm=True))
    assert (fingerprint(victims), delta.data_files(table)) == (before, files)


def test_a_link_made_after_the_last_check_adds_no_file_to_a_full_vacuum(
    spark: SparkSession, table: Path, victims: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def attack(job: Job, found: list[str]) -> None:
        calls.append(found)
        if len(calls) == 2:
            (table / "more").symlink_to(victims)

    monkeypatch.setattr(vacuum, "check_list", attack)
    before = fingerprint(victims)
    run(spark, "vacuum", parameters(table, mode="full", confirm=True))
    assert fingerprint(victims) == before
    assert delta.data_files(table) == delta.live_files(table)


@pytest.mark.parametrize("mode", VACUUMS)
def test_a_table_below_stops_a_vacuum_and_its_dry_run(
    spark: SparkSession, table: Path, template: Path, mode: str
) -> None:
    with nested(table / "inner", template), untouched(table):
        for dry_run in (True, False):
            with pytest.raises(OutsideTable, match=f"a delta table lies below this one, at {table}/inner"):
                run(spark, "vacuum", parameters(table, mode=mode, dry_run=dry_run, confirm=True))


def test_metadata_of_iceberg_beside_the_log_stops_a_vacuum(spark: SparkSession, table: Path) -> None:
    """Left by UniForm, maybe, which was switched off: whether somebody still reads it nobody knows."""
    (table / "metadata").mkdir()
    (table / "metadata" / "v1.metadata.json").write_text("{}")
    make_old(table / "metadata")
    with untouched(table), pytest.raises(OutsideTable, match="iceberg table has the same folder as this delta"):
        run(spark, "vacuum", parameters(table, mode="full", confirm=True))


def test_a_table_around_a_file_is_found_without_a_walk(spark: SparkSession, table: Path, template: Path) -> None:
    """As a lite vacuum checks it on object stores."""
    job = Job(spark.newSession(), parameters(table))
    with nested(table / "p=1" / "inner", template):
        listing.refuse_tables_around(job, [f"file:{table}/a.parquet", f"file:{table}/p=1/b.parquet"])
        with pytest.raises(OutsideTable, match=f"a delta table lies below this one, at {table}/p=1/inner"):
            listing.refuse_tables_around(job, [f"file:{table}/p=1/inner/day=1/b.parquet"])


def test_another_table_in_the_same_folder_stops_every_job(spark: SparkSession, table: Path, tmp_path: Path) -> None:
    given = parameters(table)
    shutil.rmtree(delta.log(table))
    delta.make_table(spark, tmp_path / "lake" / "other", commits=1, files=1)
    shutil.copytree(tmp_path / "lake" / "other", table, dirs_exist_ok=True)
    delta.forget(spark)
    with untouched(table):
        for action in OTHERS:
            with pytest.raises(OutsideTable, match=f"another table is at .*admitted for {given['identity']}"):
                run(spark, action, given)
        for mode in VACUUMS:
            with pytest.raises(OutsideTable, match="another table is at"):
                run(spark, "vacuum", {**given, "mode": mode, "confirm": True})


@pytest.mark.long
def test_a_table_behind_a_link_is_served_where_it_is_until_the_link_is_swapped(
    spark: SparkSession, table: Path, tmp_path: Path, template: Path
) -> None:
    link, other = tmp_path / "link", Path(shutil.copytree(template, tmp_path / "other"))
    link.symlink_to(table)
    swapped = parameters(table, boundary=boundary_parameter(str(link)))
    assert run(spark, "z_order", {**swapped, "operation_tag": "8-x"})["nothing_to_do"] is False
    assert run(spark, "vacuum", {**swapped, "operation_tag": "9-x"})["listed_files"] == 4
    assert delta.operations(table)[-3:] == ["OPTIMIZE", "VACUUM START", "VACUUM END"]
    link.unlink()
    link.symlink_to(other)
    with untouched(table):
        for action in (*OTHERS, "vacuum"):
            with pytest.raises(OutsideTable, match=f"{link} leads to {other} now"):
                run(spark, action, swapped)


@pytest.mark.long
def test_a_shallow_clone_is_rewritten_only_if_an_operator_names_the_folder_of_its_files(
    spark: SparkSession, table: Path, tmp_path: Path
) -> None:
    clone = tmp_path / "clone"
    spark.sql(f"CREATE TABLE {delta.quoted(clone)} SHALLOW CLONE {delta.quoted(table)}").collect()
    before, facts = fingerprint(table), delta.facts(spark, clone)
    for action in REWRITES:
        with pytest.raises(OutsideTable, match="an operator can name their folder in its property extra-locations"):
            run(spark, action, parameters(clone))
    assert delta.operations(clone) == ["CLONE"]

    allowed = boundary_parameter(str(clone), extra=str(table))
    assert run(spark, "z_order", parameters(clone, boundary=allowed))["nothing_to_do"] is False
    assert fingerprint(table) == before
    assert delta.facts(spark, clone) == facts


@pytest.mark.parametrize("link", ["more", "_delta_log/more"])
def test_a_link_below_the_table_stops_every_job(spark: SparkSession, table: Path, victims: Path, link: str) -> None:
    given = parameters(table)
    with linked(table / link, victims), untouched(table):
        for action, more in [*((one, {}) for one in OTHERS), *(("vacuum", {"mode": mode}) for mode in VACUUMS)]:
            with pytest.raises(OutsideTable, match=f"{link} is a link to {victims}"):
                run(spark, action, {**given, **more})


def harness(spark: SparkSession, table: Path) -> PluginHarness:
    spec = TableSpec(location=str(table), format=Format("delta"), table_name="payments")
    return PluginHarness(factory=DeltaProcessFactory(), format=DeltaFormat(), spec=spec, session=spark)
