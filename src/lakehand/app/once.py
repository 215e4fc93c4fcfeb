# SPDX-License-Identifier: Apache-2.0
"""Serves one table once: the whole service in this process, without HTTP, with a home and a driver of its own."""

import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from lakehand.app import settings as settings_file
from lakehand.app import wiring
from lakehand.app.checkup import Checked
from lakehand.app.discovery import DiscoveredTable
from lakehand.app.home import own_paths, owner_only_files, prepare_home
from lakehand.app.path_guard import refuse_own
from lakehand.app.reading import Reading
from lakehand.app.settings import Settings
from lakehand.app.wiring import Service
from lakehand.domain.actions import Action
from lakehand.domain.errors import LakehandError, Unavailable
from lakehand.domain.operations import Operation, Status
from lakehand.domain.schedules import Schedule
from lakehand.domain.tables import Table, TableSpec
from lakehand.observe import logs

DOING = frozenset({"dispatcher", "monitor", "rescuer", "engine-supervisor", "alive"})
DECIDING = DOING | {"coordinator"}
PACE = 0.2  # seconds between two looks at what happens
PATIENCE = timedelta(minutes=2)  # for something that only waits
END = 30.0  # seconds for running work to end when it was stopped
HOPELESS = 2  # starts of an engine that failed, one after the other
RETRY = {"max_attempts": 3, "first_delay": "5s"}  # a person waits for it

OnChange = Callable[[Sequence[Operation]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a person wants done to a table, once."""

    actions: tuple[Action, ...] = ()  # asked for, needed or not; none: whatever is needed
    dry_run: bool = False
    confirm: bool = False
    by: str = "a person"


@dataclass(kw_only=True)
class Once:
    """One table in the care of a service."""

    service: Service
    table: Table
    patience: timedelta = PATIENCE
    _idle_since: float | None = field(default=None)

    def perform(self, wish: Wish, on_change: OnChange) -> list[Operation]:
        """LeaseGrant everything wanted was decided and has ended; the operations, in the order they were made."""
        for action in wish.actions:
            self.service.operations.submit(
                self.table, action, None, {}, origin=wish.by, dry_run=wish.dry_run, confirm=wish.confirm
            )
        if not wish.actions:
            self.service.tables.look_now(self.table.id)
        is_over = self.are_ended if wish.actions else self.is_settled
        while not is_over(known := self.operations()):
            on_change(known)
            self.mind_hindrances(known)
            time.sleep(PACE)
        on_change(known)
        return known

    def operations(self) -> list[Operation]:
        return sorted(self.service.operations.of_table(self.table.id, recent=1000), key=lambda o: o.id)

    def are_ended(self, known: Sequence[Operation]) -> bool:
        return all(operation.status.is_final for operation in known)

    def is_settled(self, known: Sequence[Operation]) -> bool:
        """Nothing is under way, and every action was looked at since the last one ended."""
        if not self.are_ended(known):
            return False
        store = self.service.store
        last = max((operation.updated_at for operation in known), default=None)
        schedules = store.schedules.of_table(self.table.id)
        return all(has_looked(schedule, last, store.clock.now()) for schedule in schedules)

    def reasons(self) -> Mapping[Action, str]:
        """What the last look said about each action."""
        return {s.action: s.last_reason for s in self.service.store.schedules.of_table(self.table.id)}

    def mind_hindrances(self, known: Sequence[Operation]) -> None:
        """Whoever waits at a terminal is told what an unattended service would wait out."""
        if self.is_engine_hopeless(known):
            raise Unavailable(self.engine_trouble())
        waiting = [o for o in known if not o.status.is_final]
        if any(o.status.is_live for o in waiting):
            self._idle_since = None
            return
        self._idle_since = self._idle_since or time.monotonic()
        if time.monotonic() - self._idle_since <= self.patience.total_seconds():
            return
        if not waiting:
            raise Unavailable(f"the table was not decided upon in time: {self.reasons()}")
        for operation in waiting:
            self.service.operations.cancel(operation.id, by=f"patience, after it waited: {operation.reason}")

    def is_engine_hopeless(self, known: Sequence[Operation]) -> bool:
        is_given = any(o.status is Status.SUBMITTED for o in known)
        return is_given and any(failures(engine) >= HOPELESS for engine in self.service.plugins.engines.values())

    def engine_trouble(self) -> str:
        return "; ".join(engine.health().detail for engine in self.service.plugins.engines.values())

    def cancel(self) -> None:
        """Stop whatever is under way, and wait until it has stopped."""
        for operation in self.operations():
            if not operation.status.is_final:
                self.service.operations.cancel(operation.id, by="a person")
        deadline = time.monotonic() + END
        while time.monotonic() < deadline and not self.are_ended(self.operations()):
            time.sleep(PACE)

    def log_of(self, operation: Operation) -> str:
        with suppress(LakehandError):
            return self.service.operations.logs(operation.id, attempt=None, offset=0, limit=1024 * 1024)[1]
        return ""


def failures(engine: Any) -> int:
    counted = engine.health().facts.get("failures")
    return counted if isinstance(counted, int) else 0


def has_looked(schedule: Schedule, last: datetime | None, now: datetime) -> bool:
    looked = schedule.last_look
    return looked is not None and schedule.due > now and (last is None or looked >= last)


@contextmanager
def serving_once(
    found: DiscoveredTable, checked: Checked, wish: Wish, *, reading: Reading, home: Path, properties: Mapping[str, str]
) -> Iterator[Once]:
    """A service for one table, which is stopped together with its driver, whatever happens."""
    settings = settings_for(found, reading, home)
    refuse_configured_home(found, reading)
    prepare_home(home)
    with owner_only_files() as umask, logged_to(home / "service.log"):
        service = wiring.build(settings, wiring.migrated(settings), umask=umask)
        try:
            table, _ = service.tables.add(spec_of(found, checked, service, properties))
            service.start(only=DOING if wish.actions else DECIDING)
            yield Once(service=service, table=table)
        finally:
            stop(service)


def refuse_configured_home(found: DiscoveredTable, reading: Reading) -> None:
    """The table may not be where a service with these settings lives, either."""
    if found.location.startswith("/"):
        own = own_paths(settings_file.load(config=reading.config))
        refuse_own(found.location, os.path.realpath(found.location), own)


@contextmanager
def logged_to(file: Path) -> Iterator[None]:
    """What a service logs is for a file; the terminal is for the person."""
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    with file.open("a", encoding="utf-8") as log:
        logs.set_up("info", "json", stream=log)
        try:
            yield
        finally:
            root.handlers[:] = before
            root.setLevel(level)


def settings_for(found: DiscoveredTable, reading: Reading, home: Path) -> Settings:
    """As configured, but with a database, a warehouse and a driver of its own, and with this table's format only."""
    others = {r.name: {"enabled": False} for r in reading.plugins.reports if is_other_format(r, str(found.format))}
    flags = {
        "home": home,
        "database": f"sqlite:///{home / 'lakehand.db'}",
        "warehouses": [found.location],
        "retry": RETRY,
        "stop_driver": True,
        "plugins": {"table-formats": others} if others else None,
    }
    return settings_file.load(flags, reading.config)


def is_other_format(report: Any, wanted: str) -> bool:
    return report.kind == "table-format" and report.state == "on" and wanted not in report.pairs


def spec_of(found: DiscoveredTable, checked: Checked, service: Service, properties: Mapping[str, str]) -> TableSpec:
    reference = found.reference
    return TableSpec(
        location=reference.location, format=found.format, db_name=reference.db_name, scheduling=checked.scheduling,
        table_name=reference.table_name or found.name, catalog=reference.catalog.name if reference.catalog else "",
        action_types=frozenset(service.plugins.actions_of(found.format)), properties=properties,
    )  # fmt: skip


def stop(service: Service) -> None:
    service.stop()
    for engine in service.plugins.engines.values():
        end = getattr(engine, "stop", None)
        if end is not None:
            end()
    close = getattr(service.store, "close", None)
    if close is not None:
        close()
