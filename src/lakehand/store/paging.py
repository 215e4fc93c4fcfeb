# SPDX-License-Identifier: Apache-2.0
"""Keyset paging: a cursor says after which row to go on, so that rows that come or go move no page."""

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from sqlalchemy import Column, ColumnElement, Row, Select, and_, or_

from lakehand.core.ports import Page
from lakehand.domain.errors import Invalid
from lakehand.store.database import Database

T = TypeVar("T")


def read_page(
    database: Database,
    query: Select[Any],
    keys: Sequence[Column[int]],
    convert: Callable[[Row[Any]], T],
    *,
    limit: int,
    cursor: str | None,
    descending: bool = True,
) -> Page[T]:
    """Read one page of the query in the order of its keys, the last of which is unique."""
    if cursor is not None:
        query = query.where(is_after(keys, decode(cursor, len(keys)), descending=descending))
    query = query.order_by(*(key.desc() if descending else key for key in keys)).limit(limit + 1)
    rows = database.read(lambda tx: tx.execute(query).all())
    shown = rows[:limit]
    more = len(rows) > limit and shown
    return Page(
        items=[convert(row) for row in shown],
        next=encode([getattr(shown[-1], key.name) for key in keys]) if more else None,
    )


def is_after(keys: Sequence[Column[int]], at: Sequence[int], *, descending: bool) -> ColumnElement[bool]:
    key, value = keys[0], at[0]
    beyond = key < value if descending else key > value
    if len(keys) == 1:
        return beyond
    return or_(beyond, and_(key == value, is_after(keys[1:], at[1:], descending=descending)))


def encode(values: Sequence[int]) -> str:
    return base64.urlsafe_b64encode(",".join(str(v) for v in values).encode()).decode().rstrip("=")


def decode(cursor: str, count: int) -> Sequence[int]:
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        text = base64.b64decode(padded, altchars=b"-_", validate=True).decode("ascii")
        values = [int(word) for word in text.split(",") if word.isdigit() and len(word) < 19]
    except (binascii.Error, ValueError) as error:
        raise Invalid(f"{cursor[:80]!r} is not a cursor: give back the one from the page before") from error
    if len(values) != count:
        raise Invalid(f"{cursor[:80]!r} is not a cursor of this list: give back the one from the page before")
    return values
