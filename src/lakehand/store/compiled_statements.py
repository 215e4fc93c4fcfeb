# SPDX-License-Identifier: Apache-2.0
"""Statements of the hot paths, compiled once per list size, so that a call costs only the driver's work."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import BindParameter, Connection, CursorResult, Executable, Insert, Row, bindparam, column, select, text
from sqlalchemy.types import TypeEngine

LARGEST = 256
DOCUMENT = "document"
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


@dataclass(frozen=True, slots=True)
class CompiledStatement:
    text: str
    order: Sequence[str] | None  # of positional parameters; None: they are named
    constants: Mapping[str, Any]

    def run(self, tx: Connection, given: Mapping[str, Any]) -> CursorResult[Any]:
        values = {**self.constants, **given}
        if self.order is None:
            return tx.exec_driver_sql(self.text, values)
        return tx.exec_driver_sql(self.text, tuple([values[name] for name in self.order]))

    def run_many(self, tx: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        if self.order is None:
            tx.exec_driver_sql(self.text, [dict(row) for row in rows])
        else:
            tx.exec_driver_sql(self.text, [tuple([row[name] for name in self.order]) for row in rows])


@dataclass(slots=True)
class BatchInsert:
    """An insert of many rows with the same columns."""

    statement: Insert
    compiled: dict[frozenset[str], CompiledStatement] = field(default_factory=dict)

    def run(self, tx: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        columns = frozenset(rows[0])
        known = self.compiled.get(columns)
        if known is None:
            known = self.compiled[columns] = self.compile(tx, sorted(columns))
        if tx.dialect.name == "postgresql":
            known.run(tx, {DOCUMENT: _encode(rows)})
        else:
            known.run_many(tx, rows)

    def compile(self, tx: Connection, columns: list[str]) -> CompiledStatement:
        statement: Any = self.statement
        if tx.dialect.name == "postgresql":
            # One JSON parameter instead of twenty per row: half of the work on both sides.
            table: Any = self.statement.table
            source = text(f"json_populate_recordset(NULL::{table.name}, CAST(:{DOCUMENT} AS json))")
            statement = statement.from_select(columns, select(*map(column, columns)).select_from(source))
            compiled: Any = statement.compile(dialect=tx.dialect)
        else:
            compiled = statement.compile(dialect=tx.dialect, column_keys=columns)
        return CompiledStatement(compiled.string, compiled.positiontup, {})


@dataclass(slots=True)
class ListStatement:
    """A statement over a list of values (or of tuples), in chunks of up to 256; short lists are padded."""

    build: Callable[[Sequence[Any]], Executable]  # from one parameter per value
    types: Sequence[TypeEngine[Any]]  # of one value, or of each part of a tuple
    compiled: dict[tuple[str, int], CompiledStatement] = field(default_factory=dict)

    def rows(self, tx: Connection, values: Sequence[Any], **others: Any) -> list[Row[Any]]:
        """Select by all of these values."""
        return [row for start in range(0, len(values), LARGEST) for row in self.piece(tx, values, start, others).all()]

    def run(self, tx: Connection, values: Sequence[Any], **others: Any) -> None:
        """Update by all of these values."""
        for start in range(0, len(values), LARGEST):
            self.piece(tx, values, start, others)

    def piece(self, tx: Connection, values: Sequence[Any], start: int, others: Mapping[str, Any]) -> CursorResult[Any]:
        part = values[start : start + LARGEST]
        size = padded(len(part))
        part = [*part, *[part[-1]] * (size - len(part))]
        flat = part if len(self.types) == 1 else [value for values in part for value in values]
        compiled = self.compiled.get((tx.dialect.name, size)) or self.compile(tx, size)
        return compiled.run(tx, {**others, **dict(zip(NAMES, flat, strict=False))})

    def compile(self, tx: Connection, size: int) -> CompiledStatement:
        width = len(self.types)
        flat: list[BindParameter[Any]] = [bindparam(NAMES[n], type_=self.types[n % width]) for n in range(size * width)]
        listed = flat if width == 1 else [tuple(flat[n : n + width]) for n in range(0, len(flat), width)]
        statement: Any = self.build(listed)
        compiled = statement.compile(dialect=tx.dialect)
        done = CompiledStatement(compiled.string, compiled.positiontup, compiled.params)
        self.compiled[tx.dialect.name, size] = done
        return done


def padded(count: int) -> int:
    """The next power of two, so that few statements are compiled and planned."""
    size = 1
    while size < count:
        size *= 2
    return size


NAMES = [f"v{n}" for n in range(2 * LARGEST)]
