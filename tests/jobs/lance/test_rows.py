# SPDX-License-Identifier: Apache-2.0
"""The hashes of a Lance table's rows: the same in any fragments and order, others for any other value; no Spark."""

from functools import reduce
from operator import xor
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from lakehand.jobs.checksums import Checksum, checksum_of
from lakehand.jobs.lance.rows import executor_function, tag_at
from tests import lance_tables

NANOSECONDS = pa.list_(pa.timestamp("ns"))
VECTOR = pa.list_(pa.float32(), 3)
COLUMNS: dict[str, Any] = {
    "vector": pa.array([[i, 0.5, 2.0] for i in range(20)], VECTOR),
    "sparse": pa.array([None if i % 3 else [i, 0.5, None] for i in range(20)], VECTOR),
    "text": pa.array([None if i % 4 == 0 else f"row {i}" for i in range(20)], pa.large_string()),
    "bytes": pa.array([bytes([i]) for i in range(20)]),
    "half": pa.array([1.5] * 20, pa.float32()).cast(pa.float16()),
    "large": pa.array([2**64 - 1 - i for i in range(20)], pa.uint64()),
    "moment": pa.array(list(range(20)), pa.timestamp("ns")),
    "deep": pa.array([{"a": [i, None], "b": None} for i in range(20)], pa.struct({"a": NANOSECONDS, "b": NANOSECONDS})),
    "nested": pa.array([{"a": i, "b": [None, i]} for i in range(20)]),
}


def whole(path: Path) -> Checksum:
    dataset = lance.dataset(str(path))
    hashes = executor_function(str(path), {}, dataset.version)
    found = [hashes(fragment.fragment_id) for fragment in dataset.get_fragments()]
    rows, total = sum(one[0] for one in found), sum(one[1] for one in found)
    return checksum_of(rows, total, reduce(xor, (one[2] for one in found), 0))


def written(path: Path, rows: pa.Table, each: int = 20) -> Checksum:
    lance.write_dataset(rows, str(path), max_rows_per_file=each)
    return whole(path)


def test_rows_of_all_types_have_the_same_checksum_in_any_fragments_order_and_columns(tmp_path: Path) -> None:
    rows = pa.table(COLUMNS)
    turned = rows.take(list(reversed(range(20)))).select(list(reversed(rows.column_names)))

    assert written(tmp_path / "one", rows) == written(tmp_path / "many", turned, each=3)
    assert whole(tmp_path / "one").rows == 20


@pytest.mark.parametrize("name", COLUMNS)
def test_one_other_value_has_another_checksum(tmp_path: Path, name: str) -> None:
    rows = pa.table(COLUMNS)
    column = rows.column(name).combine_chunks()
    swapped = pa.concat_arrays([column.slice(1, 1), column.slice(1)])
    other = rows.set_column(rows.column_names.index(name), name, swapped)

    is_same = column[0] == column[1]

    assert (written(tmp_path / "one", rows) == written(tmp_path / "other", other)) is is_same


def test_deleted_rows_do_not_count(tmp_path: Path) -> None:
    before = written(tmp_path / "t", lance_tables.rows(0, 10))
    lance_tables.append(tmp_path / "t", 10, 5)
    lance_tables.delete(tmp_path / "t", "id >= 10")

    assert whole(tmp_path / "t") == before


def test_blobs_are_read_and_not_their_places(tmp_path: Path) -> None:
    blob = pa.field("blob", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    rows = pa.table([pa.array([b"a" * 9, b"b"], pa.large_binary())], schema=pa.schema([blob]))
    turned = rows.take([1, 0])

    assert written(tmp_path / "one", rows) == written(tmp_path / "other", turned, each=1)


def test_a_version_that_is_no_rewrite_has_no_tag(tmp_path: Path) -> None:
    lance_tables.make_table(tmp_path / "t", fragments=2)

    dataset = lance.dataset(str(tmp_path / "t"))

    assert [tag_at(dataset, version) for version in (1, 2, 7)] == [None, None, None]
