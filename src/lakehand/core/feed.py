# SPDX-License-Identifier: Apache-2.0
"""Follows what changes, once for all open pages and streams of this instance. Reads the store only while one is open.

One thread reads, and calls whoever follows: a callback returns at once, and goes on in the thread that it belongs to.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import NamedTuple, TypeAlias

from lakehand.core.ports import OperationFilter, Store
from lakehand.domain.events import EventPosition, StoredEvent
from lakehand.domain.operations import LIVE, Operation, OperationId
from lakehand.domain.tables import Table, TableId

log = logging.getLogger(__name__)
PACE = 1.0  # seconds between two readings
GAP_WAIT = 90.0  # seconds until a missing id never comes: longer than a transaction may last
BATCH = 1000  # events of one reading
MOST_MISSING = 1000  # missing ids that are looked for again at each reading
MOST_LIVE = 1000
MOST_ENDED = 5000  # operations whose end is remembered
RECENT = 100  # events whose counts one reading compares


class Topic(NamedTuple):
    """What may change: the fleet, a table or an operation."""

    kind: str
    id: int = 0


FLEET = Topic("fleet")


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What one reading has found."""

    began: float = 0.0  # on the monotonic clock: what was stored later may not be in it
    is_first: bool = False  # of the thread: what changed just before is in no comparison
    is_full: bool = False  # there may be more to read at once
    events: Sequence[StoredEvent] = ()  # new ones
    position: EventPosition = field(default_factory=EventPosition)  # after them; copy it to change it
    operations: Sequence[tuple[Operation, Table]] = ()  # in a state that was not seen before
    topics: frozenset[Topic] = frozenset()  # all that changed in any way


Follower: TypeAlias = Callable[[Changes], None]


@dataclass(kw_only=True)
class ChangeFeed:
    """Thread-safe."""

    store: Store
    pace: float = PACE
    gap_wait: float = GAP_WAIT
    readings: int = 0
    _followers: dict[Follower, Collection[Topic]] = field(default_factory=dict)
    _shown: list[Operation] = field(default_factory=list)
    _position: EventPosition | None = None  # None until the thread has read
    _thread: threading.Thread | None = None
    _closing: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def join(self, follower: Follower, watched: Collection[Topic] = ()) -> EventPosition | None:
        """Call the follower at every change from now on. It misses nothing that is stored after the position.

        None: nothing was read yet. Then it is called after the first reading, and misses nothing after that one.
        Its own operations and tables are read whatever happens to them.
        """
        with self._lock:
            self._followers[follower] = watched
            if self._thread is None and not self.is_closed:
                self._thread = threading.Thread(target=self._follow, name="change-feed", daemon=True)
                self._thread.start()
            return self._position

    def leave(self, follower: Follower) -> None:
        with self._lock:
            self._followers.pop(follower, None)

    def note_shown(self, operations: Iterable[Operation]) -> None:
        """Unfinished operations that a follower has shown: it wants to know what becomes of them."""
        with self._lock:
            self._shown += operations

    def close(self, timeout: float = 0.0) -> None:
        """Let all followers end, and wait so many seconds for the thread to end."""
        with self._lock:
            self._closing.set()
            thread, followers = self._thread, list(self._followers)
        self._notify(Changes(), followers)
        if thread is not None:
            thread.join(timeout)

    @property
    def is_closed(self) -> bool:
        return self._closing.is_set()

    @property
    def is_reading(self) -> bool:
        return self._thread is not None

    @property
    def watchers(self) -> int:
        return len(self._followers)

    def _follow(self) -> None:
        reader = Reader(store=self.store, gap_wait=self.gap_wait)
        while self._is_followed():
            is_full = False
            try:
                is_full = self._read(reader)
            except Exception:
                log.warning("open pages and streams are not kept up to date right now", exc_info=True)
            if not is_full:
                self._closing.wait(self.pace)

    def _is_followed(self) -> bool:
        """If not, the thread ends, and the next follower starts another one."""
        with self._lock:
            if self._followers and not self.is_closed:
                return True
            self._thread = self._position = None
            return False

    def _read(self, reader: "Reader") -> bool:
        with self._lock:
            watched = set(chain.from_iterable(self._followers.values()))
            shown, self._shown = self._shown, []
        reader.note_shown(shown)
        changes = reader.read(watched)
        with self._lock:
            self._position = changes.position
            followers = list(self._followers)
        if changes.topics or changes.is_first:
            self._notify(changes, followers)
        self.readings += 1
        return changes.is_full

    def _notify(self, changes: Changes, followers: Iterable[Follower]) -> None:
        for follower in followers:
            try:
                follower(changes)
            except RuntimeError:  # its event loop has ended
                log.warning("an open page or stream is not followed any more", exc_info=True)
                self.leave(follower)


@dataclass(kw_only=True)
class Reader:
    """What one thread has seen. A reading that fails changes nothing, and is repeated."""

    store: Store
    gap_wait: float
    position: EventPosition | None = None  # None before the first reading
    heights: deque[tuple[float, int]] = field(default_factory=deque)  # the highest id at the times of readings
    times: dict[int, int] = field(default_factory=dict)  # the counts of recent events
    rows: dict[TableId, Table] = field(default_factory=dict)  # watched tables
    known: dict[OperationId, Operation] = field(default_factory=dict)  # unfinished ones, as last seen
    ended: dict[OperationId, Operation] = field(default_factory=dict)  # the last ones that ended
    unread: set[OperationId] = field(default_factory=set)  # known only from what was shown

    def note_shown(self, operations: Iterable[Operation]) -> None:
        """They are read once again: what ended them may have been read before they were known."""
        for operation in operations:
            if operation.id not in self.known and operation.id not in self.ended:
                self.known[operation.id] = without_lease(operation)
                self.unread.add(operation.id)

    def read(self, watched: Collection[Topic] = ()) -> Changes:
        """What is new, and what became of the watched operations and tables."""
        began, store = time.monotonic(), self.store
        tables = {TableId(one.id) for one in watched if one.kind == "table"}
        position = self.position or self.newest()
        fresh = store.events.after(position.highest, limit=BATCH)
        late = store.events.by_ids(list(islice(position.missing(), MOST_MISSING)))
        recent = store.events.list(limit=RECENT).items
        changed = self.changed_operations([*late, *fresh], watched)
        rows = store.tables.by_ids(tables | {one.table for one in changed})

        events = [one for one in (*late, *fresh) if position.add(one.id)]
        repeated = [one for one in recent if one.times != self.times.get(one.id, 1)]
        altered = [number for number in tables if rows.get(number) != self.rows.get(number)]
        is_first, self.position = self.position is None, position
        self.times = {one.id: one.times for one in recent}
        self.rows = {number: rows[number] for number in tables if number in rows}
        self.unread.clear()
        for operation in changed:
            self.remember(operation)
        self.settle(position, began)
        return Changes(
            began=began, is_first=is_first, is_full=len(fresh) == BATCH, events=events, position=position.copy(),
            operations=[(one, rows[one.table]) for one in changed],
            topics=frozenset({*topics_of([*events, *repeated], changed), *(Topic("table", one) for one in altered)}),
        )  # fmt: skip

    def newest(self) -> EventPosition:
        """The newest event; ids just below it that are missing may still come."""
        last = self.store.events.last_id()
        position = EventPosition(max(last - BATCH, 0))
        for event in self.store.events.after(position.base, limit=BATCH):
            position.add(event.id)
        return position

    def changed_operations(self, events: Sequence[StoredEvent], watched: Collection[Topic]) -> Sequence[Operation]:
        """Those with a new event, those that run, those that are watched, and those of a table with an event."""
        live = self.store.operations.list(OperationFilter(statuses=LIVE), limit=MOST_LIVE, cursor=None).items
        touched = {one.event.operation for one in events if one.event.operation is not None}
        tables = {one.event.table for one in events if one.event.operation is None}
        moved = {one.id for one in self.known.values() if one.status.is_live or one.table in tables}
        named = {OperationId(one.id) for one in watched if one.kind == "operation"}
        others = self.store.operations.by_ids((touched | named | moved | self.unread) - {one.id for one in live})
        last = {**self.ended, **self.known}
        return [one for one in [*live, *others] if last.get(one.id) != without_lease(one)]

    def remember(self, operation: Operation) -> None:
        left, entered = (self.known, self.ended) if operation.status.is_final else (self.ended, self.known)
        left.pop(operation.id, None)
        entered[operation.id] = without_lease(operation)
        if len(self.ended) > MOST_ENDED:
            del self.ended[next(iter(self.ended))]

    def settle(self, position: EventPosition, now: float) -> None:
        self.heights.append((now, position.highest))
        while self.heights and now - self.heights[0][0] >= self.gap_wait:
            position.settle(self.heights.popleft()[1])


def topics_of(events: Iterable[StoredEvent], operations: Iterable[Operation]) -> set[Topic]:
    touched = [*((one.event.table, one.event.operation) for one in events), *((o.table, o.id) for o in operations)]
    tables = {Topic("table", table) for table, _ in touched if table is not None}
    found = tables | {Topic("operation", operation) for _, operation in touched if operation is not None}
    return {FLEET, *found} if touched else found


def without_lease(operation: Operation) -> Operation:
    """A renewed lease is not a change that anybody follows."""
    return replace(operation, lease=None)
