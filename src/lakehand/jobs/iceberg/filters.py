# SPDX-License-Identifier: Apache-2.0
"""A filter for a few partitions, as Iceberg's own expressions: no text of a table becomes SQL."""

from functools import reduce
from typing import Any

from pyspark.sql import SparkSession

from lakehand.jobs.safety import UnsafeRequest
from lakehand.jobs.spark import jvm

PLAIN = frozenset({"year", "month", "day", "hour"})
WITH_WIDTH = frozenset({"bucket", "truncate"})


def of_partitions(session: SparkSession, partitions: list[list[list[Any]]]) -> Any:
    """``partitions``: each a list of (column, transform, value)."""
    expressions = jvm(session).org.apache.iceberg.expressions.Expressions
    each = [all_of(expressions, [equals(expressions, *part) for part in partition]) for partition in partitions]
    return reduce(getattr(expressions, "or"), each)


def all_of(expressions: Any, parts: list[Any]) -> Any:
    return reduce(getattr(expressions, "and"), parts)


def equals(expressions: Any, column: str, transform: str, value: Any) -> Any:
    found = term(expressions, column, transform)
    return expressions.isNull(found) if value is None else expressions.equal(found, value)


def term(expressions: Any, column: str, transform: str) -> Any:
    kind, _, width = transform.rstrip("]").partition("[")
    if kind == "identity":
        return expressions.ref(column)
    if kind in WITH_WIDTH:
        return getattr(expressions, kind)(column, int(width))
    if kind not in PLAIN:
        raise UnsafeRequest(f"no partition is chosen by the transform {transform!r}")
    return getattr(expressions, kind)(column)
