# SPDX-License-Identifier: Apache-2.0
"""Reading tables without Spark: health in numbers, catalogs of folders, and what is not a table."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from lakehand.formats.paimon import PaimonFormat
from lakehand.formats.paimon.schema import TableKind, TableSchema, size_of, span_of
from lakehand.formats.paimon.table import PAIMON
from lakehand.spi import Catalog, Invalid, TableReference
from lakehand.storage import bounds
from tests.formats.paimon.handmade import MB, HandMade, small
from tests.kit.sentences import Sentences


def test_health_counts_what_the_manifests_have_left(tmp_path: Path) -> None:
    made = HandMade(tmp_path / "t")
    made.commit(small(10))
    made.commit(small(2, prefix="big", size=300 * MB))
    made.commit(deleted=small(4))

    numbers = PaimonFormat().inspect(TableReference(location=str(made.root))).numbers

    expected = {"files": 8, "bytes": 606 * MB, "small_files": 6, "small_bytes": 6 * MB, "snapshots": 3, "rows": 10}
    assert {key: numbers[key] for key in expected} == expected
    assert numbers["oldest_snapshot"] == "2026-11-16T12:00:00+00:00"
    assert "lost_deletions" not in numbers


def test_the_numbers_of_a_table_with_a_key_show_its_sorted_runs(tmp_path: Path) -> None:
    made = HandMade(tmp_path / "t", primary_keys=["id"], options={"bucket": "2"})
    made.commit([*small(3, prefix="bottom", level=5), *small(2, level=0), *small(1, prefix="other", bucket=1)])

    numbers = PaimonFormat().inspect(TableReference(location=str(made.root))).numbers

    assert (numbers["most_sorted_runs"], numbers["buckets"], numbers["small_files"]) == (3, 2, 3)
    assert (numbers["rows"], numbers["unmerged_rows"]) == (None, 10), "rows of one key are not merged yet"


def test_a_manifest_that_is_not_whole_is_an_error_and_never_empty(tmp_path: Path) -> None:
    made = HandMade(tmp_path / "t")
    made.commit(small(10))
    for file in (made.root / "manifest").iterdir():
        if "list" not in file.name:
            file.write_bytes(file.read_bytes()[:-20])

    with pytest.raises(OSError, match="manifest"):
        PaimonFormat().inspect(TableReference(location=str(made.root))).numbers["files"]


def test_a_manifest_with_fewer_entries_than_its_list_counts_is_an_error(tmp_path: Path, sentences: Sentences) -> None:
    made = HandMade(tmp_path / "t")
    made.commit(small(10))
    [manifest] = [file for file in (made.root / "manifest").iterdir() if "list" not in file.name]
    manifest.unlink()
    made.manifest_of([])
    (made.root / "manifest" / made.manifest_of([])).rename(manifest)

    with pytest.raises(OSError, match=manifest.name) as error:
        PaimonFormat().inspect(TableReference(location=str(made.root))).numbers["files"]
    sentences.check("a manifest that is not whole", str(error.value), file=manifest.name, found=0, entries=10)


@pytest.mark.parametrize("open_stream", [bounds.arrow_stream, bounds.zstd_stream()])
def test_both_ways_to_decompress_agree(open_stream: Callable[[bytes], Any]) -> None:
    import pyarrow as pa

    data = pa.compress(b"paimon" * 1000, codec="zstd", asbytes=True)

    with open_stream(data) as stream:
        assert bytes(stream.read(10_000)) == b"paimon" * 1000


def test_a_filesystem_catalog_is_its_folders(tmp_path: Path) -> None:
    HandMade(tmp_path / "shop.db" / "orders")
    HandMade(tmp_path / "shop.db" / "items")
    (tmp_path / "shop.db" / "no-table").mkdir()
    HandMade(tmp_path / "not-a-database" / "orders")
    catalog = Catalog(name="c", format=PAIMON, type="filesystem", properties={"warehouse": f"{tmp_path}/"})

    references = list(PaimonFormat().tables(catalog))

    assert [(p.db_name, p.table_name) for p in references] == [("shop", "items"), ("shop", "orders")]
    assert references[1].location == str(tmp_path / "shop.db" / "orders")


@pytest.mark.parametrize(("own", "expected"), [({}, ["items", "orders"]), ({"catalog-key": "other"}, ["theirs"])])
def test_a_jdbc_catalog_is_the_rows_with_its_key(own: dict[str, str], expected: list[str], tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "catalog.db")) as database:
        database.execute("CREATE TABLE paimon_tables (catalog_key, database_name, table_name)")
        rows = [("jdbc", "shop", "orders"), ("jdbc", "shop", "items"), ("other", "shop", "theirs")]
        database.executemany("INSERT INTO paimon_tables VALUES (?, ?, ?)", rows)
        database.commit()
    properties = {"uri": f"jdbc:sqlite:{tmp_path}/catalog.db", "warehouse": "s3://lake/paimon/", **own}
    catalog = Catalog(name="c", format=PAIMON, type="jdbc", properties=properties)

    found = list(PaimonFormat().tables(catalog))

    assert [one.location for one in found] == [f"s3://lake/paimon/shop.db/{name}" for name in expected]
    assert [(one.catalog, one.db_name, one.table_name) for one in found] == [(catalog, "shop", n) for n in expected]


def test_other_catalogs_are_refused_by_name(tmp_path: Path) -> None:
    catalog = Catalog(name="c", format=PAIMON, type="rest", properties={"warehouse": str(tmp_path)})

    with pytest.raises(Invalid, match=r"'rest'.*filesystem, jdbc and hive"):
        list(PaimonFormat().tables(catalog))


@pytest.mark.parametrize(
    ("options", "primary", "partition", "kind"),
    [
        ({}, (), (), TableKind.APPEND),
        ({"bucket": "4"}, (), (), TableKind.BUCKETED_APPEND),
        ({"bucket": "4"}, ("id",), ("p",), TableKind.PRIMARY_KEY),
        ({}, ("id", "p"), ("p",), TableKind.PRIMARY_KEY),
        ({}, ("id",), ("p",), TableKind.CROSS_PARTITION),
    ],
)
def test_the_kind_of_a_table_follows_from_keys_and_buckets(
    options: dict[str, str], primary: tuple[str, ...], partition: tuple[str, ...], kind: TableKind
) -> None:
    assert TableSchema(id=0, options=options, primary_keys=primary, partition_keys=partition).kind is kind


def test_sizes_and_durations_are_read_as_paimon_writes_them() -> None:
    assert [size_of(text) for text in ("128 mb", "1g", "4096", "2 kb", "1 MebiBytes", "7b")] == [
        128 * MB, 1024 * MB, 4096, 2048, MB, 7,
    ]  # fmt: skip
    assert [span_of(text) for text in ("1 h", "30 min", "7 days", "500 ms", "1000")] == [
        timedelta(hours=1), timedelta(minutes=30), timedelta(days=7), timedelta(seconds=0.5), timedelta(seconds=1),
    ]  # fmt: skip
    for wrong in ("many", "1 parsec", "-5 mb", ""):
        with pytest.raises(Invalid):
            span_of(wrong)
