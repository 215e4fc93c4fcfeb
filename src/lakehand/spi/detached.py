# SPDX-License-Identifier: Apache-2.0
"""The runtime of a table that no service knows: for commands without a service, and for the tests of a plugin."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TypeVar

from lakehand.domain.actions import Action
from lakehand.domain.operations import Operation
from lakehand.domain.references import TableReference
from lakehand.domain.tables import Table, TableId, TableSpec
from lakehand.spi.config import TableConfig, layered
from lakehand.spi.formats import TableFormat, TableSnapshot
from lakehand.spi.runtimes import StateKey, TableRuntime

T = TypeVar("T")


class DetachedRuntime(TableRuntime):
    """Operations are what it was given; state is kept in memory; the snapshot is read once."""

    def __init__(
        self,
        *,
        spec: TableSpec,
        format: TableFormat,
        now: datetime,
        reference: TableReference | None = None,
        properties: Mapping[str, str] | None = None,
        operations: Sequence[Operation] = (),
    ) -> None:
        self._table = Table(id=TableId(1), spec=spec, created_at=now, updated_at=now)
        self._reference = reference or TableReference(location=spec.location)
        self._format = format
        self._now = now
        self._config = layered(("plugin", properties or {}), ("table", spec.properties))
        self._operations = operations
        self._snapshot: TableSnapshot | None = None
        self._states: dict[str, str] = {}

    @property
    def table(self) -> Table:
        return self._table

    @property
    def reference(self) -> TableReference:
        return self._reference

    @property
    def config(self) -> TableConfig:
        return self._config

    @property
    def now(self) -> datetime:
        return self._now

    def snapshot(self) -> TableSnapshot:
        if self._snapshot is None:
            self._snapshot = self._format.inspect(self._reference)
        return self._snapshot

    def operations(self, action: Action | None = None) -> Sequence[Operation]:
        return [o for o in self._operations if action in (None, o.process.action)]

    def state(self, key: StateKey[T]) -> T:
        text = self._states.get(key.name)
        return key.default if text is None else key.decode(text)

    def update_state(self, key: StateKey[T], change: Callable[[T], T]) -> T:
        value = change(self.state(key))
        self._states[key.name] = key.encode(value)
        return value
