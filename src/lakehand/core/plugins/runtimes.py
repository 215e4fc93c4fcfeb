# SPDX-License-Identifier: Apache-2.0
"""The one table runtime for all formats: what a factory sees of a table during one decision."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from lakehand.core.overlaps import OverlapGuard, unresolved
from lakehand.core.plugins.pools import own_code
from lakehand.core.plugins.registry import Plugins
from lakehand.core.ports import Store
from lakehand.domain.errors import NotFound
from lakehand.domain.locations import EXTRA_LOCATIONS, Boundary, extra_locations
from lakehand.domain.notifications import ChangedPartitions
from lakehand.domain.operations import Operation, OperationId
from lakehand.domain.tables import Catalog, Format, Table, TableId, TableReference
from lakehand.spi.config import TableConfig, layered
from lakehand.spi.factories import ProcessFactory
from lakehand.spi.formats import TableFormat, TableSnapshot
from lakehand.spi.runtimes import TableRuntime

RECENT = 50
MOST_SNAPSHOTS, KEEP_SNAPSHOTS = 32, 60.0  # tables, and seconds


@dataclass(slots=True)
class Seen:
    """What was read of a table, shared by several decisions about it at one time."""

    snapshot: TableSnapshot | None = None
    error: Exception | None = None  # why there is no snapshot: the table is not read again for the next decision
    changed: ChangedPartitions | None = None
    operations: Sequence[Operation] | None = None  # set to None when an operation is added


class SnapshotCache:
    """The last snapshots of a few tables, for a minute. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[TableId, tuple[float, TableSnapshot]] = OrderedDict()

    def put(self, table: TableId, snapshot: TableSnapshot) -> None:
        with self._lock:
            self._known[table] = (time.monotonic(), snapshot)
            self._known.move_to_end(table)
            if len(self._known) > MOST_SNAPSHOTS:
                self._known.popitem(last=False)

    def get(self, table: TableId, token: Callable[[], str]) -> TableSnapshot | None:
        """The snapshot with that change token. The token is only asked for if there is a snapshot."""
        with self._lock:
            since, snapshot = self._known.get(table, (0.0, None))
        if snapshot is None or time.monotonic() - since > KEEP_SNAPSHOTS:
            return None
        return snapshot if snapshot.token == token() else None


class StoredRuntime(TableRuntime):
    """Reads lazily: the snapshot and the operations once per decision."""

    def __init__(
        self,
        *,
        table: Table,
        reference: TableReference,
        config: TableConfig,
        now: datetime,
        store: Store,
        format: TableFormat,
        factory: ProcessFactory,
        left_out: OperationId | None = None,
        seen: Seen | None = None,
        snapshots: SnapshotCache,
        reuse_snapshot: bool = False,
    ) -> None:
        super().__init__(table=table, reference=reference, config=config, now=now, factory=factory)
        self._store = store
        self._format = format
        self._owner = factory.name
        self._left_out = left_out
        self._seen = seen or Seen()
        self._snapshots = snapshots
        self._reuse_snapshot = reuse_snapshot
        self.used_partitions: int | None = None  # the version of those that the decision has asked for

    def snapshot(self) -> TableSnapshot:
        if self._seen.error is not None:
            raise self._seen.error
        if self._seen.snapshot is None:
            self._seen.snapshot = self._read_snapshot()
            self._snapshots.put(self.table.id, self._seen.snapshot)
        return self._seen.snapshot

    def _read_snapshot(self) -> TableSnapshot:
        try:
            return self._known_snapshot() or self._format.inspect(self.reference)
        except Exception as error:
            self._seen.error = error
            raise

    def _known_snapshot(self) -> TableSnapshot | None:
        if not self._reuse_snapshot:
            return None
        return self._snapshots.get(self.table.id, lambda: self._format.probe(self.reference))

    def known_operations(self) -> Sequence[Operation]:
        known = self._seen.operations
        if known is None:
            with own_code():
                known = self._seen.operations = self._store.operations.of_table(self.table.id, recent=RECENT)
        return [o for o in known if o.id != self._left_out]

    def changed_partitions(self) -> Sequence[str]:
        if self._seen.changed is None:
            with own_code():
                self._seen.changed = self._store.partitions.changed(self.table.id)
        self.used_partitions = self._seen.changed.version
        return self._seen.changed.names

    def stored_state(self, name: str) -> str | None:
        with own_code():
            return self._store.states.get(self.table.id, self._owner, name)

    def store_state(self, name: str, text: str, *, replacing: str | None) -> bool:
        with own_code():
            return self._store.states.put(self.table.id, self._owner, name, text, seen=replacing)


@dataclass(frozen=True, kw_only=True)
class Runtimes:
    """Opens runtimes, and refuses locations that links lead out of the warehouses or into other tables."""

    store: Store
    plugins: Plugins
    check_path: Callable[[str], None]  # follows links; raises LocationRefused
    draw_boundary: Callable[[str, Sequence[str]], Boundary]  # of a location and its extra locations; as above
    real_path: Callable[[str], str] = unresolved  # a location with all links resolved
    warehouses: Sequence[str] = ()
    catalogs: Mapping[str, Catalog] = field(default_factory=dict)
    snapshots: SnapshotCache = field(default_factory=SnapshotCache)

    def open(
        self,
        table: Table,
        factory: ProcessFactory,
        *,
        now: datetime,
        left_out: OperationId | None = None,
        seen: Seen | None = None,
        reuse_snapshot: bool = False,
    ) -> StoredRuntime:
        """``left_out``: the operation that the decision is about; the runtime does not list it.

        ``seen``: shared by decisions of one thread about one table, so that its metadata is read once.
        ``reuse_snapshot``: use the last snapshot if the table's change token is still the same.
        """
        self.check_path(table.location)
        config = layered(("plugin", self.plugins.properties_of(factory)), ("table", table.spec.properties))
        return StoredRuntime(
            table=table,
            reference=self.table_reference(table),
            config=config,
            now=now,
            store=self.store,
            format=self.plugins.format(table.format),
            factory=factory,
            left_out=left_out,
            seen=seen,
            snapshots=self.snapshots,
            reuse_snapshot=reuse_snapshot,
        )

    def boundary(self, runtime: TableRuntime, overlapping: Sequence[Table] | None = None) -> Boundary:
        """What the job of an operation may touch, by the table's real location now.

        ``overlapping``: with its stored path; None: not read yet.
        """
        extra = extra_locations(runtime.config.text(EXTRA_LOCATIONS))
        boundary = self.draw_boundary(runtime.table.location, extra)
        self.overlaps.check(runtime.table, boundary.real, overlapping)
        return boundary

    @property
    def overlaps(self) -> OverlapGuard:
        return OverlapGuard(store=self.store, real_path=self.real_path, warehouses=self.warehouses)

    def probe(self, on: Format, reference: TableReference) -> str:
        self.check_path(reference.location)
        with own_code():
            self.overlaps.check_link(reference.location)
        return self.plugins.format(on).probe(reference)

    def table_reference(self, table: Table) -> TableReference:
        spec = table.spec
        return self.reference(spec.location, spec.catalog, spec.db_name, spec.table_name)

    def reference(self, location: str, catalog: str, db_name: str, table_name: str) -> TableReference:
        if not catalog:
            return TableReference(location=location)
        if catalog not in self.catalogs:
            raise NotFound(f"{db_name}.{table_name} is in the catalog {catalog!r}, which the settings do not have")
        return TableReference(location=location, catalog=self.catalogs[catalog], db_name=db_name, table_name=table_name)
