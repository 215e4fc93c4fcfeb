# SPDX-License-Identifier: Apache-2.0
"""Keeps the registered tables in step with the catalogs of the settings. Safe to run in every instance at once."""

import logging
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from threading import Thread

from lakehand.api.catalogs import CatalogAnswer, SyncAnswer, SyncRequest
from lakehand.api.fields import answer, values_of
from lakehand.core.plugins.registry import Plugins
from lakehand.core.ports import Store, TableFilter
from lakehand.core.services.audit_trail import AuditTrail
from lakehand.core.services.catalog_changes import (
    Absent,
    CatalogChanges,
    Listing,
    Name,
    Rename,
    batches,
    changes_of,
    named,
)
from lakehand.core.services.tables import SERVICE, TableService
from lakehand.domain.access import AuditRequest, Caller, Role
from lakehand.domain.actions import Action
from lakehand.domain.errors import Conflict, LakehandError, NotFound
from lakehand.domain.events import Event
from lakehand.domain.locations import normalise
from lakehand.domain.masks import Masks
from lakehand.domain.tables import HEARTBEAT_TIMEOUT, Catalog, Table, TableId, TableReference, TableSpec

log = logging.getLogger(__name__)
PAGE = 1000
BATCH = 500  # new tables that are registered while a catalog is still being listed
ROUND = 30.0  # seconds that a round waits for its catalogs


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedCatalog:
    """A catalog, and what is wanted for its tables."""

    catalog: Catalog
    sync: bool = True
    actions: frozenset[Action] = frozenset()  # none: all that the format has
    owner: str = "default"
    queue: str = "default"


@dataclass(frozen=True, kw_only=True)
class CatalogService:
    store: Store
    plugins: Plugins
    tables: TableService
    audit: AuditTrail
    catalogs: Mapping[str, ServedCatalog] = field(default_factory=dict)
    heartbeat_timeout: timedelta = HEARTBEAT_TIMEOUT
    last: dict[str, SyncAnswer] = field(default_factory=dict)  # of this instance
    _missed: dict[str, dict[TableId, int]] = field(default_factory=dict)
    _threads: dict[str, Thread] = field(default_factory=dict)

    def run_once(self) -> bool:
        """Sync every catalog that has it on. Never True: the loop's pause sets the pace.

        Each has a thread of its own, and the next round leaves out those that are still at it: a slow catalog delays
        no other.
        """
        due = [name for name, served in self.catalogs.items() if served.sync and not self.is_syncing(name)]
        for name in due:
            self._threads[name] = Thread(target=self.sync_and_log, args=(name,), name=f"catalog-{name}", daemon=True)
            self._threads[name].start()
        deadline = time.monotonic() + ROUND
        for name in due:
            self._threads[name].join(max(0.0, deadline - time.monotonic()))
        return False

    def is_syncing(self, name: str) -> bool:
        return name in self._threads and self._threads[name].is_alive()

    def sync_and_log(self, name: str) -> None:
        try:
            report = self.sync_now(name)
        except Exception:  # the database is away: the next round tries again
            log.exception("catalog not synced", extra={"catalog": name})
        else:
            log.log(level_of(report), "catalog synced", extra={"catalog": name, "reason": summary_of(report)})

    def get(self, name: str) -> ServedCatalog:
        if name not in self.catalogs:
            known = ", ".join(sorted(self.catalogs)) or "none"
            raise NotFound(f"no catalog is called {name[:80]!r}: the settings have {known}")
        return self.catalogs[name]

    def list_all(self) -> Sequence[CatalogAnswer]:
        """By name, each with the last sync by this instance."""
        return [
            answer(
                CatalogAnswer, served.catalog, served, actions=sorted(served.actions),
                properties=sorted(served.catalog.properties), last_sync=self.last.get(name),
            )
            for name, served in sorted(self.catalogs.items())
        ]  # fmt: skip

    def sync(self, caller: Caller, name: str, wanted: SyncRequest) -> SyncAnswer:
        self.get(name)
        request = AuditRequest(caller=caller, action="catalog.sync", subject=name, detail=values_of(wanted))
        with self.audit.record(request, lambda: caller.need_for_all(Role.OPERATOR)) as outcome:
            report = self.sync_now(name, dry_run=wanted.dry_run, accept_empty=wanted.accept_empty, by=caller.name)
            counts = {"added": report.added, "renamed": report.renamed, "retired": report.retired}
            outcome.after = {"problem": report.problem, **{key: len(names) for key, names in counts.items()}}
        return report

    def sync_now(self, name: str, *, dry_run: bool = False, accept_empty: bool = False, by: str = "") -> SyncAnswer:
        """Register what is new, retire what was dropped. A catalog that cannot be read changes nothing.

        ``by``: the person who asked for it; empty for the loop.
        """
        served = self.get(name)
        try:
            by = by or f"the sync of {name}"
            early: list[str] = []
            listed = self.list_tables(served, early, dry_run=dry_run, by=by)
            missed = self._missed.get(name, {})
            changes = changes_of(listed, self.registered(name), missed, accept_empty=accept_empty)
            report = self.carry_out(served, changes, listed.count, dry_run=dry_run, by=by)
            report = replace(report, added=[*early, *report.added])
        except Exception as error:
            problem = without_secrets(described(error), served.catalog)
            report = SyncAnswer(
                catalog=name, at=self.store.clock.now(), dry_run=dry_run, tables=0, added=[], renamed=[], retired=[],
                missing=[], refused={}, problem=problem,
            )  # fmt: skip
        self.remember(report)
        return report

    def list_tables(self, served: ServedCatalog, early: list[str], *, dry_run: bool, by: str) -> Listing:
        """All tables of a catalog. New ones are registered in batches meanwhile: a large catalog is served soon,
        and a restart goes on where it stopped; ``early`` has their names."""
        name, listing = served.catalog.name, Listing()
        for batch in batches(self.plugins.format(served.catalog.format).tables(served.catalog), BATCH, name):
            at, names = self.registered_like(batch, name)
            for reference in [one for one in batch if listing.note(one, at, names)]:
                refused: dict[str, str] = {}  # reported at the end, when it is tried again
                if not dry_run and self.add(served, reference, refused, by):
                    listing.note_added(reference)
                    early.append(name_of(reference))
                else:
                    listing.candidates.append(reference)
        return listing

    def registered_like(
        self, batch: Sequence[TableReference], name: str
    ) -> tuple[Mapping[str, Table], Collection[Name]]:
        """What this catalog has at the locations of a batch, and which of its names."""
        readable = [one for one in batch if not one.problem]
        at = self.store.tables.by_locations({normalise(one.location) for one in readable})
        like = self.store.tables.by_names({(one.db_name, one.table_name) for one in readable})
        return (
            {location: table for location, table in at.items() if table.spec.catalog == name},
            {named(table) for table in like if table.spec.catalog == name},
        )

    def registered(self, name: str) -> Iterator[Table]:
        cursor: str | None = None
        while True:
            page = self.store.tables.list(TableFilter(catalog=name), limit=PAGE, cursor=cursor)
            yield from page.items
            cursor = page.next
            if cursor is None:
                return

    def carry_out(
        self, served: ServedCatalog, changes: CatalogChanges, count: int, *, dry_run: bool, by: str
    ) -> SyncAnswer:
        refused = {name_of(one): without_secrets(one.problem, served.catalog) for one in changes.unreadable}
        added = [name_of(reference) for reference in changes.add]
        if not dry_run:
            self.count_missing(served.catalog.name, changes)
            self.retire(changes.retire, served.catalog, by)
            self.rename(changes.rename, served.catalog, refused, by)
            added = [name_of(reference) for reference in changes.add if self.add(served, reference, refused, by)]
        return SyncAnswer(
            catalog=served.catalog.name, at=self.store.clock.now(), dry_run=dry_run, tables=count, added=added,
            renamed=[f"{one.table.name} → {name_of(one.reference)}" for one in changes.rename], refused=refused,
            retired=[table.name for table in changes.retire], missing=[table.name for table in changes.missing],
            problem=changes.why_kept,
        )  # fmt: skip

    def count_missing(self, name: str, changes: CatalogChanges) -> None:
        before = self._missed.get(name, {})
        self._missed[name] = {table.id: before.get(table.id, 0) + 1 for table in changes.missing}

    def retire(self, tables: Sequence[Absent], catalog: Catalog, by: str = SERVICE) -> None:
        for table in tables:
            self.remove(table.id, table.named, f"is no longer in the catalog {catalog.name}", by)

    def rename(self, renames: Sequence[Rename], catalog: Catalog, refused: dict[str, str], by: str) -> None:
        """Remove all old names before adding new ones: a name may pass from one table to another."""
        for one in renames:
            self.remove(
                one.table.id,
                named(one.table),
                f"is called {name_of(one.reference)} in the catalog {catalog.name} now",
                by,
            )
        for one in renames:
            spec = replace(one.table.spec, db_name=one.reference.db_name, table_name=one.reference.table_name)
            self.try_to_add(spec, refused, by)

    def remove(self, table: TableId, name: Name, why: str, by: str) -> None:
        """Do nothing if another instance has removed or renamed it already."""
        try:
            if named(self.tables.get(table)) == name:
                self.tables.retire(table, why=why, by=by)
        except NotFound:
            return

    def add(self, served: ServedCatalog, reference: TableReference, refused: dict[str, str], by: str) -> bool:
        catalog = served.catalog
        spec = TableSpec(
            location=reference.location, format=catalog.format, db_name=reference.db_name,
            table_name=reference.table_name,
            owner=served.owner, queue=served.queue, catalog=catalog.name, heartbeat_timeout=self.heartbeat_timeout,
            action_types=served.actions or self.plugins.default_actions_of(catalog.format),
        )  # fmt: skip
        return self.try_to_add(spec, refused, by)

    def try_to_add(self, spec: TableSpec, refused: dict[str, str], by: str) -> bool:
        """A table that cannot be registered is reported, and stops no other."""
        name = f"{spec.db_name}.{spec.table_name}"
        try:
            table, is_new = self.tables.register(spec, by=by)
            if not is_new and table.spec.catalog != spec.catalog:
                where = f"in the catalog {table.spec.catalog}" if table.spec.catalog else "by its location"
                raise Conflict(f"registered already as table {table.id}, {where}: remove that one to have it from here")
        except LakehandError as error:
            refused[name] = str(error)
            return False
        return is_new

    def remember(self, report: SyncAnswer) -> None:
        if report.dry_run:
            return
        self.last[report.catalog] = report
        troubles = [report.problem] if report.problem else []
        troubles += [f"{name} is not registered: {why}" for name, why in sorted(report.refused.items())[:10]]
        events = [trouble_event(report.catalog, trouble) for trouble in troubles]
        if events:
            self.store.events.add(events, now=report.at)


def described(error: Exception) -> str:
    return str(error) if isinstance(error, LakehandError) else f"{type(error).__name__}: {error}"


def without_secrets(text: str, catalog: Catalog) -> str:
    """A library's error message may repeat the properties that it was given."""
    return Masks.of(catalog.properties).hide(text)


def name_of(reference: TableReference) -> str:
    return f"{reference.db_name}.{reference.table_name}" if reference.db_name else reference.table_name


def trouble_event(catalog: str, trouble: str) -> Event:
    """The same trouble again is counted in one row."""
    return Event(
        kind="catalog.trouble", message=f"catalog {catalog}: {trouble}", detail={"catalog": catalog},
        fingerprint=f"catalog.trouble:{catalog}:{trouble}"[:240],
    )  # fmt: skip


def level_of(report: SyncAnswer) -> int:
    changed = report.added or report.retired or report.renamed
    return logging.WARNING if report.problem else logging.INFO if changed else logging.DEBUG


def summary_of(report: SyncAnswer) -> str:
    if report.problem and not report.tables:
        return report.problem
    counts = {"added": report.added, "renamed": report.renamed, "retired": report.retired, "missing": report.missing}
    changes = ", ".join(f"{len(names)} {change}" for change, names in counts.items() if names)
    return f"{report.tables} tables; {changes or 'nothing changed'}"
