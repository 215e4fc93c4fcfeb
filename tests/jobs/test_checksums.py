# SPDX-License-Identifier: Apache-2.0
"""The checksum of rows: the same in any order, another one for any other row."""

from collections.abc import Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession

from lakehand.jobs.checksums import Checksum, checksum, columns_of

pytestmark = pytest.mark.spark
COLUMNS = {
    "number": "id", "text": "concat('row ', id)", "double": "id * 0.5D", "binary": "cast(concat('b', id) as binary)",
    "moment": "timestamp_micros(id)", "day": "date_add(date'2026-01-01', cast(id as int))",
    "exact": "cast(id as decimal(38, 9))", "flag": "id % 2 = 0", "list": "array(id, null, 3)",
    "nested": "named_struct('a', id, 'b', cast(null as string), 'c', array(named_struct('d', id)))",
    "map": "map('x', id, 'y', null)", "maps": "map(named_struct('k', id), map(1, array(id)))", "nothing": "null",
}  # fmt: skip
# Two columns that have other values, and that a hash which skips nulls would take for the same.
PAIRS = {
    "a null that moved to the next column": ("null a, 1 b", "1 a, null b"),
    "a null in a list": ("array(1, null) a", "array(1) a"),
    "a null that moved in a list": ("array(1, null) a", "array(null, 1) a"),
    "an empty list and none": ("array() a", "cast(null as array<void>) a"),
    "a null in a struct": ("named_struct('x', null, 'y', 1) a", "named_struct('x', 1, 'y', null) a"),
    "a struct of nulls and none": ("named_struct('x', cast(null as int)) a", "cast(null as struct<x: int>) a"),
    "a list in a list": ("array(array(1, 2), array(3)) a", "array(array(1), array(2, 3)) a"),
    "values that changed places": ("'x' a, 'y' b", "'y' a, 'x' b"),
    "key and value": ("map(1, 2) a", "map(2, 1) a"),
    "two values of a map": ("map(1, 'a', 2, 'b') a", "map(1, 'b', 2, 'a') a"),
    "a byte": ("cast('a' as binary) a", "cast('b' as binary) a"),
    "one microsecond": ("timestamp_micros(1) a", "timestamp_micros(2) a"),
    "an empty text and none": ("'' a", "cast(null as string) a"),
}  # fmt: skip
SAME = {
    "the order of a map": ("map(1, 'a', 2, 'b') a", "map(2, 'b', 1, 'a') a"),
    "the order of columns": ("1 a, 2 b", "2 b, 1 a"),
    "the sign of zero": ("0.0D a", "-0.0D a"),
    "a NaN": ("double('NaN') a", "-double('NaN') a"),
}


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> Iterator[DataFrame]:
    found = spark.range(50).selectExpr(*(f"{value} as `{name}`" for name, value in COLUMNS.items())).cache()
    yield found
    found.unpersist()


def one(spark: SparkSession, columns: str) -> Checksum:
    return checksum(spark.sql(f"SELECT {columns}"))


def test_rows_of_all_types_have_the_same_checksum_in_any_order(rows: DataFrame) -> None:
    turned = rows.orderBy("text").select(*reversed(rows.columns)).repartition(3)

    assert checksum(turned) == checksum(rows)
    assert checksum(rows).rows == 50


def test_lost_doubled_and_exchanged_rows_are_seen(rows: DataFrame) -> None:
    first, second = rows.where("number = 1"), rows.where("number = 2")
    whole = checksum(rows)

    assert checksum(rows.where("number <> 1")).text != whole.text
    doubled = checksum(rows.where("number <> 2").unionAll(first))
    assert (doubled.rows, doubled.text != whole.text) == (50, True)
    # Pairs vanish in an exclusive or: only the sum sees these.
    twice = checksum(rows.where("number > 2").unionAll(first).unionAll(first).unionAll(second).unionAll(second))
    others = checksum(rows.where("number > 2").unionAll(first).unionAll(first).unionAll(first).unionAll(first))
    assert twice.text != others.text


@pytest.mark.parametrize("name", PAIRS)
def test_other_values_have_another_checksum(spark: SparkSession, name: str) -> None:
    left, right = PAIRS[name]

    assert one(spark, left) != one(spark, right)


@pytest.mark.parametrize("name", SAME)
def test_what_a_reader_cannot_tell_apart_has_the_same_checksum(spark: SparkSession, name: str) -> None:
    left, right = SAME[name]

    assert one(spark, left) == one(spark, right)


def test_no_rows_and_no_columns_have_a_checksum_as_well(spark: SparkSession) -> None:
    assert checksum(spark.range(0)).rows == 0
    assert checksum(spark.range(3).select()).rows == 3


def test_columns_are_the_same_whatever_their_order(spark: SparkSession) -> None:
    assert columns_of(spark.sql("SELECT 1 a, 'x' b")) == columns_of(spark.sql("SELECT 'x' b, 1 a"))
    assert columns_of(spark.sql("SELECT 1 a")) != columns_of(spark.sql("SELECT 1L a"))
