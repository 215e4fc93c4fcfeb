# SPDX-License-Identifier: Apache-2.0
"""The dispatch rules: which pending operations go next, and why the others wait. Pure: facts in, order out."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from lakehand.domain.operations import Operation
from lakehand.domain.tables import Format


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much may run at once. A number of 0 or a missing entry means no limit."""

    running: int = 0
    is_shut: bool = False  # nothing may run at all, since no engine takes anything
    queues: Mapping[str, int] = field(default_factory=dict)
    queue_default: int = 0
    owner_share: float = 0.5  # of the running operations, while others wait
    parallelism: Mapping[tuple[str, str], int] = field(default_factory=dict)  # by (format, action)
    age_step: timedelta = timedelta(minutes=10)  # priority rises by one per this much waiting
    engines: Mapping[str, int] = field(default_factory=dict)  # 0 is a limit here: nothing may run there
    engines_off: Mapping[str, str] = field(default_factory=dict)  # why nothing is submitted to an engine now


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
    engine: str = ""
    holder: str = ""  # the instance that runs it


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """What takes no further operation now. Whatever is in none of these may run."""

    is_full: bool = False  # every slot is taken
    slots: Collection[str] = ()
    queues: Collection[str] = ()
    owners: Collection[str] = ()  # have their share: closed only while another owner has something that may run
    pairs: Collection[tuple[str, str]] = ()  # (format, action)
    engines: Collection[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchQueue:
    """What the dispatch rules weigh."""

    candidates: Sequence[Candidate]
    busy: Sequence[Busy]
    has_more_owners: bool = False  # beyond these candidates, owners without their share may wait


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    go: Sequence[Operation]
    wait: Mapping[int, str]  # operation id → why it waits


def choose(
    candidates: Iterable[Candidate],
    busy: Sequence[Busy],
    limits: Limits,
    now: datetime,
    *,
    has_more_owners: bool = False,
) -> Choice:
    """Go through the candidates by rank and start each that exceeds no limit."""
    waiting = sorted(candidates, key=lambda c: rank(c.operation, limits, now))
    usage = Usage(busy, limits, owners={c.operation.owner for c in waiting}, has_more_owners=has_more_owners)
    go: list[Operation] = []
    wait: dict[int, str] = {}
    for candidate in waiting:
        if why := usage.why_waiting(candidate):
            wait[candidate.operation.id] = why
        else:
            usage.take(candidate)
            go.append(candidate.operation)
    return Choice(go=go, wait=wait)


def rank(operation: Operation, limits: Limits, now: datetime) -> tuple[float, int, datetime, int]:
    """Smaller is sooner: priority grown by age, urgent work before the rest, then the oldest.

    Age counts from when it could last start: what is put back at each admission does not stop the others.
    """
    since = max(operation.due_at, operation.not_before)
    steps = (now - since) / limits.age_step
    return (-(operation.priority + int(steps)), not operation.process.urgent, since, operation.id)


class Usage:
    """Counts of what runs now, by each limit."""

    def __init__(
        self, busy: Sequence[Busy], limits: Limits, owners: Collection[str] = (), *, has_more_owners: bool = False
    ) -> None:
        self.limits = limits
        self.owners = owners  # that wait
        self.has_more_owners = has_more_owners
        self.running = len(busy)
        self.slots = {b.slot for b in busy}
        self.queues = Counter(b.queue for b in busy)
        self.by_owner = Counter(b.owner for b in busy)
        self.pairs = Counter((b.format, b.action) for b in busy)
        self.engines = Counter(b.engine for b in busy)
        self.share = max(1, int(limits.running * limits.owner_share))

    @property
    def closed(self) -> Closed:
        """Every limit that is reached."""
        return Closed(
            is_full=self.is_full,
            slots=self.slots,
            queues=[queue for queue in self.queues if self.is_queue_full(queue)],
            owners=[owner for owner in self.by_owner if self.has_share(owner)],
            pairs=[pair for pair in self.limits.parallelism if self.is_pair_full(pair)],
            engines=[*self.limits.engines_off, *(name for name in self.limits.engines if self.is_engine_full(name))],
        )

    @property
    def is_full(self) -> bool:
        return self.limits.is_shut or 0 < self.limits.running <= self.running

    def queue_limit(self, queue: str) -> int:
        return self.limits.queues.get(queue, self.limits.queue_default)

    def is_queue_full(self, queue: str) -> bool:
        return 0 < self.queue_limit(queue) <= self.queues[queue]

    def is_pair_full(self, pair: tuple[str, str]) -> bool:
        return 0 < self.limits.parallelism.get(pair, 0) <= self.pairs[pair]

    def is_engine_full(self, name: str) -> bool:
        return name in self.limits.engines and self.engines[name] >= self.limits.engines[name]

    def has_share(self, owner: str) -> bool:
        return bool(self.limits.running) and self.by_owner[owner] >= self.share

    def why_waiting(self, candidate: Candidate) -> str:
        operation, limits = candidate.operation, self.limits
        if operation.slot in self.slots:
            return "another operation of this table runs"
        if self.is_full:
            return f"all {limits.running} slots are taken"
        if self.is_queue_full(operation.queue):
            return f"queue {operation.queue} is at its limit of {self.queue_limit(operation.queue)}"
        pair = (str(candidate.format), str(operation.process.action))
        if self.is_pair_full(pair):
            return f"{pair[0]} {pair[1]} is at its parallelism of {limits.parallelism[pair]}"
        return self.why_engine_waits(operation) or self.why_owner_waits(operation)

    def why_engine_waits(self, operation: Operation) -> str:
        """None for what has no job yet: its factory chooses the engine with it, unless the request did."""
        name = operation.process.engine
        if not operation.process.job and operation.wanted_engine is None:
            return ""
        if name in self.limits.engines_off:
            return self.limits.engines_off[name]
        return f"engine {name} is at its capacity of {self.limits.engines[name]}" if self.is_engine_full(name) else ""

    def why_owner_waits(self, operation: Operation) -> str:
        """It waits only for owners who have less: two owners with their shares do not wait for each other."""
        others = (owner for owner in self.owners if owner != operation.owner)
        others_wait = self.has_more_owners or not all(self.has_share(owner) for owner in others)
        if self.has_share(operation.owner) and others_wait:
            return f"owner {operation.owner} has its share of {self.share} slots while others wait"
        return ""

    def take(self, candidate: Candidate) -> None:
        operation = candidate.operation
        self.running += 1
        self.slots.add(operation.slot)
        self.queues[operation.queue] += 1
        self.by_owner[operation.owner] += 1
        self.pairs[(str(candidate.format), str(operation.process.action))] += 1
        self.engines[operation.process.engine] += 1
