# SPDX-License-Identifier: Apache-2.0
"""Rows and an order-free checksum of a data frame: equal for the same rows in any order, files and partitions.

Spark's xxhash64 ignores nulls at every depth and refuses maps, so that both are brought into a form that it sees.
Values count as equal where SQL calls them equal: 0.0 and -0.0 are the same, and so is every NaN.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import ArrayType, DataType, MapType, NullType, StructType

Hash = Callable[[Column], Column]
MISSING = -1  # in the place of a null's hash


@dataclass(frozen=True)
class Checksum:
    rows: int
    text: str  # the sum and the exclusive or of the hashes of all rows


def checksum(frame: DataFrame) -> Checksum:
    """One pass over all columns, which go by their names. The sum wraps, so that the session must not be ANSI's.

    The exclusive or alone would not see a row that comes twice more, and the sum alone is easier to hit by chance.
    """
    hashed = frame.select(row_hash(frame.schema).alias("h"))
    [(rows, total, mixed)] = hashed.selectExpr("count(1)", "sum(h)", "bit_xor(h)").collect()
    return checksum_of(rows, total or 0, mixed or 0)


def checksum_of(rows: int, total: int, mixed: int) -> Checksum:
    """From the sum and the exclusive or of 64-bit hashes."""
    return Checksum(rows, f"{total % 2**64:016x}{mixed % 2**64:016x}")


def row_hash(schema: StructType) -> Column:
    return struct_hash(schema, sql.col)


def struct_hash(kind: StructType, field: Callable[[str], Column]) -> Column:
    """Of the fields by name, each followed by whether it is there: a null alone would leave no trace."""
    parts: list[Column] = []
    for one in sorted(kind.fields, key=lambda each: each.name):
        value = field(quoted(one.name))
        parts += [plain(one.dataType, value), value.isNull()]
    return sql.xxhash64(*parts) if parts else sql.lit(0).cast("bigint")


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def plain(kind: DataType, value: Column) -> Column:
    """The value where xxhash64 sees all of it, else its hash."""
    return value_hash(kind)(value) if isinstance(kind, (ArrayType, MapType, StructType, NullType)) else value


def value_hash(kind: DataType) -> Hash:
    """A function from a value of the type to a bigint that is never null."""
    if isinstance(kind, StructType):
        return lambda value: or_missing(value, struct_hash(kind, lambda name: value[name_of(name)]))
    if isinstance(kind, ArrayType):
        return lambda value: or_missing(value, list_hash(value, value_hash(kind.elementType)))
    if isinstance(kind, MapType):
        return lambda value: or_missing(value, map_hash(value, kind))
    if isinstance(kind, NullType):
        return lambda value: sql.lit(MISSING).cast("bigint")
    return lambda value: or_missing(value, sql.xxhash64(value))


def name_of(quoted_name: str) -> str:
    return quoted_name[1:-1].replace("``", "`")


def or_missing(value: Column, hashed: Column) -> Column:
    return sql.when(value.isNull(), sql.lit(MISSING).cast("bigint")).otherwise(hashed)


def list_hash(value: Column, element: Hash) -> Column:
    return sql.xxhash64(sql.size(value), sql.transform(value, element))


def map_hash(value: Column, kind: MapType) -> Column:
    """Of the entries in the order of their hashes: a map has no order of its own."""
    key, item = value_hash(kind.keyType), value_hash(kind.valueType)
    entries = sql.transform(sql.map_entries(value), lambda entry: sql.xxhash64(key(entry["key"]), item(entry["value"])))
    return sql.xxhash64(sql.size(value), sql.array_sort(entries))


def columns_of(frame: DataFrame) -> str:
    """Names and types in the order of the names, nullability aside: only rows of the same columns are compared."""
    types = {one.name: one.dataType.simpleString() for one in frame.schema.fields}
    return ", ".join(f"{name} {types[name]}" for name in sorted(types))


def without(frame: DataFrame, hidden: Callable[[str], bool]) -> DataFrame:
    """Without the columns that are not the table's own."""
    return reduce(lambda left, name: left.drop(name), [one for one in frame.columns if hidden(one)], frame)
