# SPDX-License-Identifier: Apache-2.0
"""Checks tables without a service: health in numbers, and what Lakehand would do to each of them and why."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from lakehand.api.tables import NewTable
from lakehand.app.plugins import storage_properties
from lakehand.core.plugins.registry import Plugins
from lakehand.domain.actions import Action
from lakehand.domain.errors import Busy, LakehandError, NotFound
from lakehand.domain.locations import normalise
from lakehand.domain.processes import Json, Skip, TableProcess
from lakehand.domain.tables import Format, Scheduling, TableReference, TableSpec
from lakehand.local.discovery import DiscoveredTable, Finder, UnreadableFolder, one_line
from lakehand.local.reader import LocalReader
from lakehand.spi.factories import ProcessFactory
from lakehand.spi.formats import TableFormat, TableSnapshot
from lakehand.spi.runtimes import DetachedRuntime

if TYPE_CHECKING:
    from lakehand.app.wiring import Service

T = TypeVar("T")
THREADS = 8
AHEAD = 4 * THREADS  # discovered tables that wait for a thread
# Only Hudi's writers leave plans behind, so only Hudi decides differently by scheduling.
SCHEDULINGS = {Format("hudi"): [Scheduling.WRITER, Scheduling.SERVICE]}

Discovered = DiscoveredTable | UnreadableFolder | LakehandError


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionDecision:
    """Whether one action is needed, and why."""

    action: Action
    needed: bool
    reason: str
    scheduling: Scheduling = Scheduling.WRITER
    has_dry_run: bool = False  # it deletes, and can list beforehand what it would delete

    @property
    def document(self) -> dict[str, Any]:
        document = {"action": str(self.action), "needed": self.needed, "reason": self.reason}
        is_default = self.scheduling is Scheduling.WRITER
        return document if is_default else document | {"scheduling": str(self.scheduling)}


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedTable:
    """The result for one table; with a problem when it could not be read."""

    location: str
    format: str = ""
    name: str = ""
    also: tuple[str, ...] = ()
    numbers: Mapping[str, Json] = field(default_factory=dict)
    decisions: tuple[ActionDecision, ...] = ()
    problem: str = ""
    seconds: float = 0.0

    @property
    def needs(self) -> tuple[ActionDecision, ...]:
        return tuple(decision for decision in self.decisions if decision.needed)

    @property
    def needed(self) -> Sequence[tuple[str, str]]:
        """The actions that it needs, each with the reason."""
        return [(str(decision.action), decision.reason) for decision in self.needs]

    @property
    def reference_text(self) -> str:
        """A table of a catalog is named by it; its location alone would not lead back to the catalog."""
        return self.name if ":" in self.name else self.location

    @property
    def scheduling(self) -> Scheduling:
        """``service`` if an action is needed only with it."""
        by_service = any(d.scheduling is Scheduling.SERVICE for d in self.needs)
        return Scheduling.SERVICE if by_service else Scheduling.WRITER

    @property
    def state(self) -> str:
        if self.problem:
            return "broken"
        return "needs" if self.needs else "healthy"

    @property
    def document(self) -> dict[str, Any]:
        return {
            "location": self.location,
            "name": self.name,
            "format": self.format,
            "also": list(self.also),
            "state": self.state,
            "numbers": dict(self.numbers),
            "actions": [decision.document for decision in self.decisions],
            "problem": self.problem or None,
            "seconds": round(self.seconds, 4),
        }


@dataclass(frozen=True, kw_only=True)
class TableChecker:
    plugins: Plugins
    properties: Mapping[str, str] = field(default_factory=dict)  # used as the table's own
    scheduling: Scheduling | None = None  # None: try all that the format has

    def check(self, found: DiscoveredTable) -> CheckedTable:
        """Any error becomes the problem of this table and does not stop the others."""
        began = time.perf_counter()
        also = tuple(map(str, found.also))
        known: dict[str, Any] = {
            "location": found.location,
            "format": str(found.format),
            "name": found.name,
            "also": also,
        }
        try:
            numbers, decisions = self.inspect(found)
        except Exception as error:
            return CheckedTable(**known, problem=one_line(error), seconds=time.perf_counter() - began)
        return CheckedTable(**known, numbers=numbers, decisions=decisions, seconds=time.perf_counter() - began)

    def inspect(self, found: DiscoveredTable) -> tuple[Mapping[str, Json], tuple[ActionDecision, ...]]:
        reader = ReadOnce(self.plugins.format(found.format))
        numbers = reader.inspect(found.reference).numbers
        actions = sorted(self.plugins.default_actions_of(found.format))
        return numbers, tuple(self.decide(found, reader, action) for action in actions)

    def decide(self, found: DiscoveredTable, reader: "ReadOnce", action: Action) -> ActionDecision:
        """The first scheduling with which the action is needed, else the first."""
        factory = self.plugins.factory(found.format, action)
        tried = [self.scheduling] if self.scheduling else SCHEDULINGS.get(found.format, [Scheduling.WRITER])
        decisions = (self.trigger(factory, found, reader, action, scheduling) for scheduling in tried)
        first = next(decisions)
        return first if first.needed else next((d for d in decisions if d.needed), first)

    def trigger(
        self,
        factory: ProcessFactory,
        found: DiscoveredTable,
        reader: "ReadOnce",
        action: Action,
        scheduling: Scheduling,
    ) -> ActionDecision:
        runtime = DetachedRuntime(
            spec=spec_of(found, scheduling, self.plugins, self.properties), format=reader,
            now=datetime.now(timezone.utc), reference=found.reference, properties=self.plugins.properties_of(factory),
            factory=factory,
        )  # fmt: skip
        try:
            answer: TableProcess | Skip = patiently(partial(factory.trigger, runtime, action))
        except Exception as error:
            return ActionDecision(action=action, needed=False, reason=f"it cannot be decided: {one_line(error)}")
        return ActionDecision(
            action=action, needed=isinstance(answer, TableProcess), reason=answer.reason, scheduling=scheduling,
            has_dry_run=action in factory.dry_run_actions(),
        )  # fmt: skip


def spec_of(
    found: DiscoveredTable, scheduling: Scheduling, plugins: Plugins, properties: Mapping[str, str]
) -> TableSpec:
    """As the table would be registered."""
    reference = found.reference
    return TableSpec(
        location=reference.location, format=found.format, db_name=reference.db_name, scheduling=scheduling,
        table_name=reference.table_name or found.name, catalog=reference.catalog.name if reference.catalog else "",
        action_types=plugins.default_actions_of(found.format), properties=properties,
    )  # fmt: skip


class ReadOnce(TableFormat):
    """A format that reads a table once, however many decisions need it."""

    format: Format  # type: ignore[misc]

    def __init__(self, reader: TableFormat) -> None:
        self.format = reader.format
        self._reader = reader
        self._snapshot: TableSnapshot | None = None

    def probe(self, reference: TableReference) -> str:
        return self._reader.probe(reference)

    def inspect(self, reference: TableReference) -> TableSnapshot:
        if self._snapshot is None:
            self._snapshot = patiently(partial(self._reader.inspect, reference))
        return self._snapshot


def patiently(read: Callable[[], T]) -> T:
    """Wait for as long as other tables are in the way: nobody comes back later here."""
    while True:
        with suppress(Busy):
            return read()


def check_tables(
    paths: Iterable[str], reader: LocalReader, finder: Finder, checker: TableChecker
) -> Iterator[CheckedTable]:
    """Each table as soon as it is checked; few are discovered ahead, so that memory does not grow with the lake."""
    discovered = discover(paths, reader, finder)
    with ThreadPoolExecutor(THREADS, thread_name_prefix="check") as pool:
        pending: set[Future[CheckedTable]] = set()
        while True:
            pending |= {pool.submit(check_one, one, checker) for one in islice(discovered, AHEAD - len(pending))}
            if not pending:
                return
            done, pending = wait(pending, return_when=FIRST_COMPLETED)
            yield from (future.result() for future in done)


def discover(paths: Iterable[str], reader: LocalReader, finder: Finder) -> Iterator[Discovered]:
    """A path that leads to no table is an error among the results: it does not stop the other paths."""
    for path in paths:
        is_empty = True
        try:
            for found in reader.tables_of(path, finder):
                is_empty = False
                yield found
            if is_empty:
                known = ", ".join(sorted(reader.plugins.formats))
                yield NotFound(f"{path} is not a table, and there is none below it; known formats are {known}")
        except LakehandError as error:
            yield error


def check_one(found: Discovered, checker: TableChecker) -> CheckedTable:
    """Without a location if the path itself was wrong."""
    if isinstance(found, LakehandError):
        return CheckedTable(location="", problem=str(found))
    if isinstance(found, UnreadableFolder):
        return CheckedTable(location=found.location, problem=found.reason)
    return checker.check(found)


class ServiceDiscovery:
    """Finds and checks tables for a running service: with its own plugins, and only where it may serve tables."""

    def __init__(self, service: "Service") -> None:
        settings = service.settings
        self._service = service
        self._catalogs = settings.served_catalogs()
        self._reader = LocalReader(
            plugins=service.plugins, catalogs=settings.catalog_map(),
            storage=storage_properties(settings.plugin_configs()),
        )  # fmt: skip

    def discover(self, where: str) -> Iterator[CheckedTable]:
        path = where if self.is_catalog(where) else self.admitted(where)
        checker = TableChecker(plugins=self._service.plugins)
        yield from check_tables([path], self._reader, self._reader.finder(), checker)

    def new_table(self, reference: str) -> NewTable:
        if self.is_catalog(reference):
            return self.catalog_table(reference)
        return NewTable(location=self.admitted(reference))

    def catalog_table(self, reference: str) -> NewTable:
        found = self._reader.tables_of(reference, self._reader.finder())
        tables = [one for one in found if isinstance(one, DiscoveredTable)]
        if not tables:
            raise NotFound(f"the catalog does not list {reference} any more")
        known, served = tables[0].reference, self._catalogs[reference.partition(":")[0]]
        return NewTable(
            location=known.location, format=tables[0].format, catalog=served.catalog.name, db_name=known.db_name,
            table_name=known.table_name, owner=served.owner, queue=served.queue, action_types=sorted(served.actions),
        )  # fmt: skip

    def is_catalog(self, text: str) -> bool:
        name, colon, inside = text.partition(":")
        return bool(colon) and not inside.startswith("/") and name in self._catalogs

    def admitted(self, where: str) -> str:
        """The normalised location, if the service may read it; links are followed."""
        location = normalise(where)
        self._service.tables.check_path(location)
        return location
