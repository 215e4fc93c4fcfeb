# SPDX-License-Identifier: Apache-2.0
"""Maintains one table once: the whole service in this process, without HTTP, with its own home and Spark driver."""

import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from lakehand.api.operations import OperationRequest
from lakehand.app import settings as settings_file
from lakehand.app import wiring
from lakehand.app.home import own_paths, owner_only_files, prepare_home
from lakehand.app.locations import refuse_own
from lakehand.app.settings import Settings
from lakehand.app.wiring import Service
from lakehand.domain.actions import Action
from lakehand.domain.errors import Unavailable
from lakehand.domain.masks import Masks
from lakehand.domain.operations import Operation, Status
from lakehand.domain.schedules import Schedule
from lakehand.domain.tables import Table
from lakehand.local.check import CheckedTable, spec_of
from lakehand.local.discovery import DiscoveredTable
from lakehand.local.reader import LocalReader
from lakehand.observe import logs

DOING = frozenset({"dispatcher", "monitor", "rescuer", "engine-supervisor", "alive"})
DECIDING = DOING | {"coordinator"}
POLL = 0.2  # seconds between two reads of the operations
IDLE_TIMEOUT = 120.0  # seconds, while nothing runs and something still waits
CANCEL_TIMEOUT = 30.0  # seconds for canceled operations to end
PERSON = "a person"  # the name in events
MOST_FAILED_STARTS = 2  # of an engine in a row, before the run gives up
RETRY = {"max_attempts": 3, "first_delay": "5s"}  # somebody waits at a terminal

OnChange = Callable[[Sequence[Operation]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceRequest:
    """What to do to a table, once."""

    actions: tuple[Action, ...] = ()  # run these, needed or not; empty: run what is needed
    dry_run: bool = False
    confirm: bool = False


@dataclass(kw_only=True)
class OneShotRun:
    """One table in a service that runs until the request is done."""

    service: Service
    table: Table
    _idle_since: float | None = field(default=None)

    def run(self, request: MaintenanceRequest, on_change: OnChange) -> list[Operation]:
        """Run the request to its end; returns the operations in the order in which they were created."""
        for action in request.actions:
            wanted = OperationRequest(action=action, dry_run=request.dry_run, confirm=request.confirm)
            self.service.operations.add(self.table, wanted, by=PERSON)
        if not request.actions:
            self.service.tables.evaluate_now(self.table.id)
        is_over = self.are_ended if request.actions else self.is_settled
        while not is_over(known := self.operations()):
            on_change(known)
            if self.is_paused():
                self.cancel()
                known = self.operations()
                break
            self.give_up_if_stuck(known)
            time.sleep(POLL)
        on_change(known)
        return known

    def is_paused(self) -> bool:
        """An operation has changed rows that it must not change: what waits does not run any more."""
        return self.service.store.tables.get(self.table.id).paused

    def operations(self) -> list[Operation]:
        return sorted(self.service.operations.of_table(self.table.id, recent=1000), key=lambda o: o.id)

    def are_ended(self, known: Sequence[Operation]) -> bool:
        return all(operation.status.is_final for operation in known)

    def is_settled(self, known: Sequence[Operation]) -> bool:
        """Nothing is in flight, and every action was evaluated since the last operation ended."""
        if not self.are_ended(known):
            return False
        store = self.service.store
        last = max((operation.updated_at for operation in known), default=None)
        schedules = store.schedules.of_table(self.table.id)
        return all(is_evaluated(schedule, last, store.clock.now()) for schedule in schedules)

    def reasons(self) -> Mapping[Action, str]:
        """Why each action is needed or not, from its last evaluation."""
        return {s.action: s.last_reason for s in self.service.store.schedules.of_table(self.table.id)}

    def give_up_if_stuck(self, known: Sequence[Operation]) -> None:
        """A service would wait much longer for an engine or a lock than a person at a terminal does."""
        if self.cannot_start_engine(known):
            raise Unavailable("; ".join(one.health().detail for one in self.service.plugins.engines.values()))
        waiting = [o for o in known if not o.status.is_final]
        if any(o.status.is_live for o in waiting):
            self._idle_since = None
            return
        self._idle_since = self._idle_since or time.monotonic()
        if time.monotonic() - self._idle_since <= IDLE_TIMEOUT:
            return
        if not waiting:
            raise Unavailable(f"the table was not evaluated in time: {self.reasons()}")
        for operation in waiting:
            self.service.operations.end(operation.id, by=f"a timeout, because it waited: {operation.reason}")

    def cannot_start_engine(self, known: Sequence[Operation]) -> bool:
        if not any(o.status is Status.SUBMITTED for o in known):
            return False
        failures = [engine.health().facts.get("failures") for engine in self.service.plugins.engines.values()]
        return any(isinstance(count, int) and count >= MOST_FAILED_STARTS for count in failures)

    def cancel(self) -> None:
        """Cancel what is in flight, and wait until it has stopped."""
        for operation in self.operations():
            if not operation.status.is_final:
                self.service.operations.end(operation.id, by=PERSON)
        deadline = time.monotonic() + CANCEL_TIMEOUT
        while time.monotonic() < deadline and not self.are_ended(self.operations()):
            time.sleep(POLL)


def is_evaluated(schedule: Schedule, last: datetime | None, now: datetime) -> bool:
    evaluated = schedule.evaluated_at
    return evaluated is not None and schedule.due > now and (last is None or evaluated >= last)


@contextmanager
def one_shot_run(
    found: DiscoveredTable,
    checked: CheckedTable,
    request: MaintenanceRequest,
    *,
    reader: LocalReader,
    home: Path,
    properties: Mapping[str, str],
) -> Iterator[OneShotRun]:
    """Start a service for one table. It is always stopped in the end, together with its driver."""
    settings = settings_for(found, reader, home)
    refuse_own_files(found, reader)
    prepare_home(home)
    with owner_only_files() as umask, logged_to(home / "service.log", settings.masks()):
        service = wiring.build(settings, wiring.migrated(settings), umask=umask)
        try:
            spec = spec_of(found, checked.scheduling, service.plugins, properties)
            table, _ = service.tables.register(replace(spec, action_types=spec.action_types | set(request.actions)))
            service.start(only=DOING if request.actions else DECIDING)
            yield OneShotRun(service=service, table=table)
        finally:
            service.stop()
            service.store.close()


def refuse_own_files(found: DiscoveredTable, reader: LocalReader) -> None:
    """The table must not overlap with the home of a service with these settings."""
    if found.location.startswith("/"):
        own = own_paths(settings_file.load(config=reader.config))
        refuse_own(found.location, os.path.realpath(found.location), own)


@contextmanager
def logged_to(file: Path, masks: Masks) -> Iterator[None]:
    """Log to a file while the service runs: the terminal shows the progress."""
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    with file.open("a", encoding="utf-8") as log:
        logs.set_up("info", "json", stream=log, masks=masks)
        try:
            yield
        finally:
            root.handlers[:] = before
            root.setLevel(level)


def settings_for(found: DiscoveredTable, reader: LocalReader, home: Path) -> Settings:
    """The configured settings, with a separate database, warehouse and driver, and with this table's format only."""
    formats = [one for one in reader.plugins.reports if one.kind == "table-format" and one.state == "on"]
    others = {one.name: {"enabled": False} for one in formats if str(found.format) not in one.pairs}
    flags = {
        "home": home,
        "database": f"sqlite:///{home / 'lakehand.db'}",
        "warehouses": [found.location],
        "retry": RETRY,
        "stop_driver": True,
        "plugins": {"table-formats": others} if others else None,
    }
    return settings_file.load(flags, reader.config)
