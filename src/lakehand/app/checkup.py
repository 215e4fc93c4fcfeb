# SPDX-License-Identifier: Apache-2.0
"""Looks at one table without a service: its health in numbers, and what Lakehand would do to it and why."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from lakehand.app.discovery import DiscoveredTable, reason_of
from lakehand.core.plugins import Plugins
from lakehand.domain.actions import Action
from lakehand.domain.processes import Json, Skip, TableProcess
from lakehand.domain.references import TableReference
from lakehand.domain.tables import Format, Scheduling, TableSpec
from lakehand.spi.detached import DetachedRuntime
from lakehand.spi.factories import ProcessFactory
from lakehand.spi.formats import TableFormat, TableSnapshot

# Only Hudi's writers leave plans behind: only its tables fare differently by the way of scheduling.
WAYS = {Format("hudi"): [Scheduling.WRITER, Scheduling.SERVICE]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What would be done about one action, and why."""

    action: Action
    needed: bool
    reason: str
    scheduling: Scheduling = Scheduling.WRITER
    lists_first: bool = False  # it deletes, and can say beforehand what would go

    @property
    def document(self) -> dict[str, Any]:
        said = {"action": str(self.action), "needed": self.needed, "reason": self.reason}
        return said | {"scheduling": str(self.scheduling)} if self.scheduling is not Scheduling.WRITER else said


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """One table after a look; with a problem when it could not be read."""

    location: str
    format: str = ""
    name: str = ""
    also: tuple[str, ...] = ()
    numbers: Mapping[str, Json] = field(default_factory=dict)
    decisions: tuple[Decision, ...] = ()
    problem: str = ""
    seconds: float = 0.0

    @property
    def needs(self) -> tuple[Decision, ...]:
        return tuple(decision for decision in self.decisions if decision.needed)

    @property
    def scheduling(self) -> Scheduling:
        """The way of scheduling by which most gets done."""
        by_service = any(d.scheduling is Scheduling.SERVICE for d in self.needs)
        return Scheduling.SERVICE if by_service else Scheduling.WRITER

    @property
    def document(self) -> dict[str, Any]:
        return {
            "location": self.location,
            "name": self.name,
            "format": self.format,
            "also": list(self.also),
            "state": state_of(self),
            "numbers": dict(self.numbers),
            "actions": [decision.document for decision in self.decisions],
            "problem": self.problem or None,
            "seconds": round(self.seconds, 4),
        }


def state_of(checked: Checked) -> str:
    if checked.problem:
        return "broken"
    return "needs" if checked.needs else "healthy"


@dataclass(frozen=True, kw_only=True)
class Checkup:
    plugins: Plugins
    properties: Mapping[str, str] = field(default_factory=dict)  # as if they were the table's
    scheduling: Scheduling | None = None  # None: whichever way gets more done
    actions: frozenset[Action] | None = None  # None: all that the format has

    def check(self, found: DiscoveredTable) -> Checked:
        """Whatever is wrong with one table is said of it, and stops no other."""
        began = time.perf_counter()
        try:
            numbers, decisions = self.look(found)
        except Exception as error:
            return Checked(**named(found), problem=reason_of(error), seconds=time.perf_counter() - began)
        return Checked(**named(found), numbers=numbers, decisions=decisions, seconds=time.perf_counter() - began)

    def look(self, found: DiscoveredTable) -> tuple[Mapping[str, Json], tuple[Decision, ...]]:
        reader = ReadOnce(self.plugins.format(found.format))
        numbers = reader.inspect(found.reference).numbers
        return numbers, tuple(self.decide(found, reader, action) for action in self.actions_of(found))

    def actions_of(self, found: DiscoveredTable) -> Iterator[Action]:
        return (a for a in self.plugins.actions_of(found.format) if self.actions is None or a in self.actions)

    def decide(self, found: DiscoveredTable, reader: "ReadOnce", action: Action) -> Decision:
        factory = self.plugins.factory(found.format, action)
        ways = [self.scheduling] if self.scheduling else WAYS.get(found.format, [Scheduling.WRITER])
        decisions = (self.ask(factory, found, reader, action, way) for way in ways)
        first = next(decisions)
        return first if first.needed else next((d for d in decisions if d.needed), first)

    def ask(
        self, factory: ProcessFactory, found: DiscoveredTable, reader: "ReadOnce", action: Action, way: Scheduling
    ) -> Decision:
        runtime = DetachedRuntime(
            spec=self.spec_of(found, way), format=reader, now=datetime.now(timezone.utc), reference=found.reference,
            properties=self.plugins.properties_of(factory),
        )  # fmt: skip
        try:
            answer: TableProcess | Skip = factory.trigger(runtime, action)
        except Exception as error:
            return Decision(action=action, needed=False, reason=f"it cannot be decided: {reason_of(error)}")
        return Decision(
            action=action, needed=isinstance(answer, TableProcess), reason=answer.reason, scheduling=way,
            lists_first=action in factory.dry_run_actions(),
        )  # fmt: skip

    def spec_of(self, found: DiscoveredTable, way: Scheduling) -> TableSpec:
        reference = found.reference
        return TableSpec(
            location=reference.location, format=found.format, db_name=reference.db_name, scheduling=way,
            table_name=reference.table_name or found.name, catalog=reference.catalog.name if reference.catalog else "",
            action_types=frozenset(self.plugins.actions_of(found.format)), properties=self.properties,
        )  # fmt: skip


def named(found: DiscoveredTable) -> dict[str, Any]:
    return {
        "location": found.location,
        "format": str(found.format),
        "name": found.name,
        "also": tuple(str(name) for name in found.also),
    }


class ReadOnce(TableFormat):
    """A format that reads a table once, however many decisions ask for it."""

    format: Format  # type: ignore[misc]

    def __init__(self, reader: TableFormat) -> None:
        self.format = reader.format
        self._reader = reader
        self._snapshot: TableSnapshot | None = None

    def probe(self, reference: TableReference) -> str:
        return self._reader.probe(reference)

    def inspect(self, reference: TableReference) -> TableSnapshot:
        if self._snapshot is None:
            self._snapshot = self._reader.inspect(reference)
        return self._snapshot
