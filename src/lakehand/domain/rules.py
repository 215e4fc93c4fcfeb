# SPDX-License-Identifier: Apache-2.0
"""The dispatch rules: which pending operations go next, and why the others wait. Pure: facts in, order out."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from lakehand.domain.operations import Operation
from lakehand.domain.tables import Format


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much may run at once. A number of 0 or a missing entry means no limit."""

    running: int = 0
    queues: Mapping[str, int] = field(default_factory=dict)
    queue_default: int = 0
    owner_share: float = 0.5  # of the running operations, while others wait
    parallelism: Mapping[tuple[str, str], int] = field(default_factory=dict)  # by (format, action)
    age_step: timedelta = timedelta(minutes=10)  # priority rises by one per this much waiting


class Candidate(NamedTuple):
    operation: Operation
    format: Format


@dataclass(frozen=True, slots=True, kw_only=True)
class Busy:
    """One live operation, as the rules see it."""

    table: int
    slot: str
    queue: str
    owner: str
    format: str
    action: str
    holder: str = ""  # the instance that runs it


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchQueue:
    """What the dispatch rules weigh."""

    candidates: Sequence[Candidate]
    busy: Sequence[Busy]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    go: Sequence[Operation]
    wait: Mapping[int, str]  # operation id → why it waits


def choose(candidates: Iterable[Candidate], busy: Sequence[Busy], limits: Limits, now: datetime) -> Choice:
    """Go through the candidates by rank and start each that exceeds no limit."""
    waiting = sorted(candidates, key=lambda c: merit(c.operation, limits, now))
    board = Board(busy, limits, owners={c.operation.owner for c in waiting})
    go: list[Operation] = []
    wait: dict[int, str] = {}
    for candidate in waiting:
        hindrance = board.hindrance(candidate)
        if hindrance:
            wait[candidate.operation.id] = hindrance
        else:
            board.take(candidate)
            go.append(candidate.operation)
    return Choice(go=go, wait=wait)


def merit(operation: Operation, limits: Limits, now: datetime) -> tuple[float, int, datetime, int]:
    """Smaller is sooner: priority grown by age, urgent work before the rest, then the oldest."""
    steps = (now - operation.due_at) / limits.age_step
    return (-(operation.priority + int(steps)), not operation.process.urgent, operation.due_at, operation.id)


class Board:
    """Counts of what runs now, by each limit."""

    def __init__(self, busy: Sequence[Busy], limits: Limits, owners: set[str]) -> None:
        self.limits = limits
        self.owners = owners
        self.running = len(busy)
        self.slots = {b.slot for b in busy}
        self.queues = Counter(b.queue for b in busy)
        self.by_owner = Counter(b.owner for b in busy)
        self.pairs = Counter((b.format, b.action) for b in busy)

    def hindrance(self, candidate: Candidate) -> str:
        operation, limits = candidate.operation, self.limits
        if operation.slot in self.slots:
            return "another operation of this table runs"
        if limits.running and self.running >= limits.running:
            return f"all {limits.running} slots are taken"
        queue_limit = limits.queues.get(operation.queue, limits.queue_default)
        if queue_limit and self.queues[operation.queue] >= queue_limit:
            return f"queue {operation.queue} is at its limit of {queue_limit}"
        pair = (str(candidate.format), str(operation.process.action))
        pair_limit = limits.parallelism.get(pair, 0)
        if pair_limit and self.pairs[pair] >= pair_limit:
            return f"{pair[0]} {pair[1]} is at its parallelism of {pair_limit}"
        return self.owner_hindrance(operation)

    def owner_hindrance(self, operation: Operation) -> str:
        share = max(1, int(self.limits.running * self.limits.owner_share))
        others_wait = bool(self.owners - {operation.owner})
        if self.limits.running and others_wait and self.by_owner[operation.owner] >= share:
            return f"owner {operation.owner} has its share of {share} slots while others wait"
        return ""

    def take(self, candidate: Candidate) -> None:
        operation = candidate.operation
        self.running += 1
        self.slots.add(operation.slot)
        self.queues[operation.queue] += 1
        self.by_owner[operation.owner] += 1
        self.pairs[(str(candidate.format), str(operation.process.action))] += 1
