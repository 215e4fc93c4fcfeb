# SPDX-License-Identifier: Apache-2.0
"""What comes in, and what happened."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Protocol

from lakehand.core.pages import Page
from lakehand.domain.events import Event, StoredEvent
from lakehand.domain.notifications import InboxRow
from lakehand.domain.operations import (
    OperationId,
)
from lakehand.domain.tables import TableId


class Inbox(Protocol):
    def store(self, rows: Sequence[InboxRow], events: Sequence[Event], *, now: datetime) -> Sequence[TableId]:
        """Store a batch, and events that belong to no table, in one transaction; durable when it returns."""


class Events(Protocol):
    def add(self, events: Sequence[Event], *, now: datetime) -> None: ...

    def list(
        self, *, table: TableId | None = None, operation: OperationId | None = None, kind: str | None = None,
        limit: int = 100, cursor: str | None = None,
    ) -> Page[StoredEvent]:  # fmt: skip
        """Newest first. ``kind`` matches a whole kind or a prefix that ends in a dot."""

    def after(self, id: int, *, limit: int) -> Sequence[StoredEvent]:
        """Those with a higher id, lowest first. An id that is given out earlier may become visible later."""

    def by_ids(self, ids: Collection[int]) -> Sequence[StoredEvent]:
        """Lowest id first; ids without an event are left out."""

    def last_id(self) -> int:
        """The highest id that is visible; 0 without events."""

    def remove_before(self, before: datetime, *, limit: int) -> int: ...
