# SPDX-License-Identifier: Apache-2.0
"""Events: what happened, in the order it happened; stored to explain what the service did.

Whoever follows them has a position: ids may become visible out of order, and some never do.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from lakehand.domain.errors import Invalid
from lakehand.domain.operations import Operation, OperationId
from lakehand.domain.processes import Json
from lakehand.domain.tables import TableId
from lakehand.domain.texts import LARGEST_ID

MOST_RANGES = 500  # of a text: beyond it, the oldest missing ids count as never coming
_POSITION = re.compile(r"(\d{1,19})((?:,\d{1,19}(?:-\d{1,19})?)*)", re.ASCII)
_WIDEST = 100_000  # ids in all ranges of a text


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that happened. Events with the same fingerprint share one row with a count."""

    kind: str  # for instance "operation.submitted", "table.registered", "intake.refused"
    message: str
    table: TableId | None = None
    operation: OperationId | None = None
    detail: Mapping[str, Json] = field(default_factory=dict)
    fingerprint: str | None = None
    times: int = 1  # how many equal ones it stands for

    @classmethod
    def counted(
        cls, kind: str, message: str, detail: Mapping[str, Json] | None = None, *, table: TableId | None = None
    ) -> "Event":
        """An event whose repetitions are one row with a count."""
        detail = detail or {}
        fingerprint = hashlib.sha256(f"{kind}\n{message}\n{detail}".encode()).hexdigest()[:40]
        return cls(kind=kind, message=message, detail=detail, table=table, fingerprint=fingerprint)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEvent:
    """An event as the database keeps it."""

    id: int
    event: Event
    at: datetime  # when it last happened
    first_at: datetime
    times: int


def operation_event(operation: Operation, kind: str, message: str) -> Event:
    return Event(kind=kind, message=message, table=operation.table, operation=operation.id)


@dataclass(slots=True)
class EventPosition:
    """All ids up to ``base`` were delivered or never come; beyond it, those in ``seen`` were delivered."""

    base: int = 0
    seen: set[int] = field(default_factory=set)

    @classmethod
    def read(cls, text: str) -> "EventPosition":
        """The inverse of ``str``; raises Invalid."""
        found = _POSITION.fullmatch(text[: 50 * MOST_RANGES])
        if found is None:
            raise Invalid("position: give the position of an earlier message unchanged")
        position = cls(int(found[1]))
        bounds = [part.partition("-") for part in found[2].split(",") if part]
        ranges = [range(int(first), int(last or first) + 1) for first, _, last in bounds]
        if sum(map(len, ranges)) > _WIDEST or position.base > LARGEST_ID:
            raise Invalid("position: give the position of an earlier message unchanged")
        for ids in ranges:
            for number in ids:
                position.add(number)
        return position

    def __str__(self) -> str:
        ranges = list(ranges_of(sorted(self.seen)))
        base = self.base if len(ranges) <= MOST_RANGES else ranges[-MOST_RANGES - 1][1]
        return ",".join([str(base), *(shown(*one) for one in ranges[-MOST_RANGES:])])

    def copy(self) -> "EventPosition":
        return EventPosition(self.base, set(self.seen))

    @property
    def highest(self) -> int:
        return max(self.seen, default=self.base)

    def add(self, id: int) -> bool:
        """False if it was delivered already."""
        if id <= self.base or id in self.seen:
            return False
        self.seen.add(id)
        self._close_up()
        return True

    def settle(self, id: int) -> None:
        """What is missing up to this id never comes."""
        if id > self.base:
            self.base = id
            self.seen = {one for one in self.seen if one > id}
            self._close_up()

    def missing(self) -> Iterator[int]:
        """Ids that may still come, below one that was delivered; the highest first."""
        return (number for number in range(self.highest - 1, self.base, -1) if number not in self.seen)

    def _close_up(self) -> None:
        while self.base + 1 in self.seen:
            self.base += 1
            self.seen.discard(self.base)


def ranges_of(ids: Iterable[int]) -> Iterator[tuple[int, int]]:
    first = last = -1
    for number in ids:
        is_next = last >= 0 and number == last + 1
        if last >= 0 and not is_next:
            yield first, last
        first, last = (first if is_next else number), number
    if last >= 0:
        yield first, last


def shown(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"
