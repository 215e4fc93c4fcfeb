# SPDX-License-Identifier: Apache-2.0
"""What a job may touch, tried with real links, folders and pipes; no Spark."""

import os
import re
from pathlib import Path

import pytest

from lakehand.jobs.boundary import JobBoundary, OutsideTable, boundary_of
from lakehand.testing.harness import boundary_parameter
from tests.kit.sentences import Sentences


@pytest.fixture
def table(tmp_path: Path) -> Path:
    table = tmp_path / "lake" / "trips"
    (table / "day=1").mkdir(parents=True)
    (table / "day=1" / "a.parquet").write_text("a")
    return table


def drawn(table: Path, **changes: str) -> JobBoundary:
    return boundary_of({"boundary": {**boundary_parameter(str(table)), **changes}})


def test_a_table_of_folders_and_files_is_worked_on(table: Path) -> None:
    drawn(table).check()


@pytest.mark.parametrize("inside", ["more", "day=1/more", "day=1/b.parquet", ".hidden"])
def test_a_link_anywhere_below_the_table_stops_the_job_and_is_named(table: Path, tmp_path: Path, inside: str) -> None:
    (table / inside).symlink_to(tmp_path)
    with pytest.raises(OutsideTable, match=rf"/{inside} .*{tmp_path}\b"):
        drawn(table).check()


def test_a_link_that_leads_nowhere_or_into_the_table_is_a_link_all_the_same(table: Path) -> None:
    (table / "more").symlink_to(table / "day=1")
    with pytest.raises(OutsideTable, match=r"/more .*/day=1"):
        drawn(table).check()
    (table / "more").unlink()
    (table / "more").symlink_to(table / "nowhere")
    with pytest.raises(OutsideTable, match=r"/more .*/nowhere"):
        drawn(table).check()


def test_a_pipe_below_the_table_stops_the_job_instead_of_hanging_it(table: Path) -> None:
    os.mkfifo(table / "day=1" / "b.parquet")
    with pytest.raises(OutsideTable, match=r"day=1/b\.parquet"):
        drawn(table).check()


def test_a_table_behind_a_link_is_worked_on_where_it_really_is(table: Path, tmp_path: Path) -> None:
    (tmp_path / "trips").symlink_to(table)
    boundary = drawn(tmp_path / "trips")
    boundary.check()
    assert boundary.real == str(table)
    assert boundary.holds(str(tmp_path / "trips" / "day=1" / "a.parquet"))


def test_a_link_that_was_swapped_since_the_admission_stops_the_job(table: Path, tmp_path: Path) -> None:
    (tmp_path / "trips").symlink_to(table)
    boundary = drawn(tmp_path / "trips")
    (tmp_path / "other").mkdir()
    (tmp_path / "trips").unlink()
    (tmp_path / "trips").symlink_to(tmp_path / "other")
    with pytest.raises(OutsideTable, match=f"{tmp_path}/other"):
        boundary.check()


@pytest.mark.parametrize("by_link", [True, False])
def test_another_folder_at_the_tables_location_stops_the_job(
    table: Path, tmp_path: Path, by_link: bool, sentences: Sentences
) -> None:
    boundary = drawn(table)
    table.rename(tmp_path / "moved")
    if by_link:
        table.symlink_to(tmp_path / "moved")
    else:
        table.mkdir()
    with pytest.raises(OutsideTable) as stopped:
        boundary.check()
    if by_link:
        found = {"location": table, "now": tmp_path / "moved", "admitted": table}
        sentences.check("the location leads elsewhere", str(stopped.value), **found)
    else:
        folder = re.compile(r"\d+:\d+")
        sentences.check("another folder is there", str(stopped.value), location=table, folder=folder)


def test_a_table_in_no_warehouse_is_not_worked_on(table: Path, sentences: Sentences) -> None:
    given = {**boundary_parameter(str(table)), "warehouses": [str(table.parent / "tri")]}
    with pytest.raises(OutsideTable) as stopped:
        boundary_of({"boundary": given}).check()
    sentences.check("in no warehouse", str(stopped.value), location=table)


@pytest.mark.parametrize("given", [None, {}, {"location": "/x", "real": "/x", "warehouses": ["/"]}, "/x", {"real": 7}])
def test_work_without_a_whole_boundary_is_refused(given: object) -> None:
    with pytest.raises(OutsideTable, match="boundary"):
        boundary_of({"boundary": given})


HOLDS = {
    "day=1/a.parquet": True,
    "{table}/day=1/a.parquet": True,
    "file:{table}/day=1/a.parquet": True,
    "file://{table}//day=1/a.parquet": True,
    "{table}": True,
    "{table}-other/a.parquet": False,
    "../other/a.parquet": False,
    "{table}/../other/a.parquet": False,
    "/etc/passwd": False,
    "s3://lake{table}/a.parquet": False,
}


@pytest.mark.parametrize("path", HOLDS)
def test_a_path_belongs_to_the_table_only_if_it_really_leads_there(table: Path, path: str) -> None:
    assert drawn(table).holds(path.format(table=table)) is HOLDS[path]


def test_a_path_through_a_link_that_leaves_the_table_does_not_belong_to_it(table: Path, tmp_path: Path) -> None:
    (table / "more").symlink_to(tmp_path)
    assert not drawn(table).holds("more/x.parquet")


STORES = {
    "s3://lake/db/trips/a": True,
    "s3a://lake/db/trips/a": True,
    "s3n://lake//db/trips/a": True,
    "a": True,
    "s3://secret/db/trips/a": False,
    "s3a://lake2/db/trips/a": False,
    "s3://lake/db/trips2/a": False,
    "s3://lake/db/trips/../x": False,
    "gs://lake/db/trips/a": False,
    "/db/trips/a": False,
}


@pytest.mark.parametrize("path", STORES)
def test_scheme_spellings_are_one_and_buckets_are_not(path: str) -> None:
    boundary = JobBoundary(location="s3a://lake/db/trips", real="s3a://lake/db/trips", warehouses=("s3://lake",))
    boundary.check()
    assert boundary.holds(path) is STORES[path]


def test_files_below_a_prefix_that_an_operator_named_belong_to_the_table_too() -> None:
    boundary = JobBoundary(
        location="s3://lake/t", real="s3://lake/t", warehouses=("s3://lake",), extra=("s3://lake/d",)
    )
    assert boundary.holds("s3a://lake/d/1.parquet")
    assert boundary.outside(["s3://lake/d/1.parquet", "s3://lake/e/1.parquet"]) == ["s3://lake/e/1.parquet"]
    with pytest.raises(OutsideTable, match=r"\b1 .* s3://lake/e/1\.parquet.*extra-locations"):
        boundary.refuse_outside(["s3://lake/e/1.parquet"], doing="rewrite")


NESTED = {
    "delta": "in/_delta_log/00000000000000000000.json",
    "hudi": "in/.hoodie/hoodie.properties",
    "iceberg": "in/metadata/v1.metadata.json",
    "paimon": "in/schema/schema-0",
    "lance": "in/_versions/1.manifest",
}


@pytest.mark.parametrize("own", NESTED)
@pytest.mark.parametrize("nested", NESTED)
def test_a_table_of_any_format_below_one_of_any_format_is_found(
    table: Path, own: str, nested: str, sentences: Sentences
) -> None:
    marker = table / NESTED[nested]
    marker.parent.mkdir(parents=True)
    marker.write_text("")
    (table / NESTED[own].removeprefix("in/")).parent.mkdir(parents=True)
    (table / NESTED[own].removeprefix("in/")).write_text("")
    boundary = drawn(table)
    with pytest.raises(OutsideTable) as stopped:
        boundary.refuse_tables_below(own, boundary.files(None))
    found = {"format": nested, "folder": table / "in", "file": NESTED[nested]}
    sentences.check("a table below another", str(stopped.value), **found)
    boundary.refuse_tables_below(own, boundary.files(None), also_own=lambda folder: folder == "in")


def test_two_formats_in_one_folder_are_found(table: Path, sentences: Sentences) -> None:
    with pytest.raises(OutsideTable) as stopped:
        drawn(table).refuse_tables_below("delta", ["_delta_log/0.json", ".hoodie/hoodie.properties"])
    sentences.check("two tables in one folder", str(stopped.value), other="hudi", own="delta", folder=table)
