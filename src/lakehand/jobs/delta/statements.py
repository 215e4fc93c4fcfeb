# SPDX-License-Identifier: Apache-2.0
"""Delta's statements: every name and value is quoted, and what cannot be quoted is refused."""

import re
from collections.abc import Sequence
from typing import Any

TYPES = frozenset({"string", "date", "boolean", "byte", "short", "integer", "long"})
SQL_NAMES = {"byte": "TINYINT", "short": "SMALLINT", "integer": "INT", "long": "BIGINT"}
_TAG = re.compile(r"[A-Za-z0-9_.:-]{1,200}")


def table_at(location: Any) -> str:
    """A table by its location, as Spark SQL names it."""
    return f"delta.{name(location)}"


def name(text: Any) -> str:
    if not isinstance(text, str) or not text or not text.isprintable():
        raise ValueError(f"{text!r} cannot be quoted: it is empty or has a control character")
    return "`" + text.replace("`", "``") + "`"


def column(text: Any) -> str:
    """A column, or with dots a field inside one."""
    if not isinstance(text, str):
        raise TypeError(f"{text!r} is no column")
    return ".".join(name(part) for part in text.split("."))


def literal(value: Any) -> str:
    if not isinstance(value, str) or not value.isprintable() or "\\" in value:
        raise ValueError(f"{value!r} cannot be quoted: it has a backslash or a control character")
    return "'" + value.replace("'", "\\'") + "'"


def where(partitions: Sequence[Any] | None) -> str:
    """A condition that holds in the given partitions and nowhere else; empty: all of the table."""
    if partitions is None:
        return ""
    if not partitions:
        raise ValueError("no partition was named, which cannot mean all of them")
    return " WHERE " + " OR ".join("(" + " AND ".join(equals(*value) for value in one) + ")" for one in partitions)


def equals(key: Any, kind: Any, value: Any) -> str:
    if kind not in TYPES:
        raise ValueError(f"{kind!r} is no type that partitions are named by")
    if value is None:
        return f"{name(key)} IS NULL"
    return f"{name(key)} = CAST({literal(value)} AS {SQL_NAMES.get(kind, kind.upper())})"


def tag_of(text: Any) -> str:
    if not isinstance(text, str) or not _TAG.fullmatch(text):
        raise ValueError(f"{text!r} is no operation tag")
    return f"lakehand-operation={text}"


def whole(value: Any, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{what} is {value!r}: a whole number above 0 is needed")
    return value
