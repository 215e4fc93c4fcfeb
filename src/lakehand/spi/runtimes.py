# SPDX-License-Identifier: Apache-2.0
"""What a factory sees of a table during one decision; ``DetachedRuntime`` is that of a table that no service knows."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from lakehand.domain.actions import Action
from lakehand.domain.errors import Conflict
from lakehand.domain.operations import Operation
from lakehand.domain.tables import Table, TableId, TableReference, TableSpec
from lakehand.spi.config import TableConfig, layered
from lakehand.spi.formats import TableFormat, TableSnapshot

if TYPE_CHECKING:
    from lakehand.spi.factories import ProcessFactory

T = TypeVar("T")
MOST_WRITES = 5  # of one state, before other writers of it win


@dataclass(frozen=True, slots=True, kw_only=True)
class StateKey(Generic[T]):
    """A named piece of state that a factory keeps per table. It outlives the plugin being switched off."""

    name: str
    default: T = field(hash=False)  # a key belongs in sets also where its default is a dict
    encode: Callable[[T], str]
    decode: Callable[[str], T]


class UndeclaredState(LookupError):
    """A factory used a state that is not among its ``required_states``."""


class TableRuntime(ABC):
    """One table during one decision."""

    def __init__(
        self,
        *,
        table: Table,
        reference: TableReference,
        config: TableConfig,
        now: datetime,
        factory: "ProcessFactory | None" = None,
    ) -> None:
        self.table = table
        self.reference = reference  # where the table is, with its catalog if it has one
        self.config = config  # the effective configuration, with the origin of each value
        self.now = now  # the moment of this decision, by the database's clock
        self._factory = factory  # whose state it keeps; None: anybody's, unchecked

    @abstractmethod
    def snapshot(self) -> TableSnapshot:
        """The table's metadata, read at the first call and the same for the whole decision."""

    def operations(self, action: Action | None = None) -> Sequence[Operation]:
        """Operations of this table, newest first: all unfinished ones and recent finished ones."""
        return [o for o in self.known_operations() if action in (None, o.process.action)]

    def changed_partitions(self) -> Sequence[str]:
        """The partitions that events named, as ``column=value/column=value``, since a decision that led to work asked.

        A hint about where to look first, from anybody: it may be wrong, and is empty where nobody named any, or too
        many. It must never decide what is touched.
        """
        return ()

    def state(self, key: StateKey[T]) -> T:
        self._check_declared(key)
        return decode(key, self.stored_state(key.name))

    def update_state(self, key: StateKey[T], change: Callable[[T], T]) -> T:
        """Store what ``change`` makes of the value, and tell the factory if it is another one."""
        self._check_declared(key)
        for _ in range(MOST_WRITES):
            stored = self.stored_state(key.name)
            value = change(decode(key, stored))
            text = key.encode(value)
            if self.store_state(key.name, text, replacing=stored):
                if self._factory is not None and text != stored:
                    self._factory.state_changed(self, key, decode(key, stored), value)
                return value
        raise Conflict(f"state {key.name} of table {self.table.id} was changed by others {MOST_WRITES} times in a row")

    def _check_declared(self, key: StateKey[Any]) -> None:
        """By name: a state that nobody declares is not tested by the contract, and surprises whoever looks for it."""
        if self._factory is None or key.name in {one.name for one in self._factory.required_states()}:
            return
        raise UndeclaredState(
            f"{self._factory.name} used the state {key.name!r}: return its StateKey from required_states()"
        )

    @abstractmethod
    def known_operations(self) -> Sequence[Operation]:
        """The operations of all actions, newest first."""

    @abstractmethod
    def stored_state(self, name: str) -> str | None: ...

    @abstractmethod
    def store_state(self, name: str, text: str, *, replacing: str | None) -> bool:
        """Store a state unless someone else has replaced it meanwhile; then return False."""


class DetachedRuntime(TableRuntime):
    """For commands without a service and for tests: given operations, and state in memory."""

    def __init__(
        self,
        *,
        spec: TableSpec,
        format: TableFormat,
        now: datetime,
        reference: TableReference | None = None,
        properties: Mapping[str, str] | None = None,
        operations: Sequence[Operation] = (),
        changed_partitions: Sequence[str] = (),
        factory: "ProcessFactory | None" = None,
    ) -> None:
        super().__init__(
            table=Table(id=TableId(1), spec=spec, created_at=now, updated_at=now),
            reference=reference or TableReference(location=spec.location),
            config=layered(("plugin", properties or {}), ("table", spec.properties)),
            now=now,
            factory=factory,
        )
        self._format = format
        self._operations = operations
        self._changed_partitions = changed_partitions
        self._snapshot: TableSnapshot | None = None
        self._states: dict[str, str] = {}

    def snapshot(self) -> TableSnapshot:
        if self._snapshot is None:
            self._snapshot = self._format.inspect(self.reference)
        return self._snapshot

    def changed_partitions(self) -> Sequence[str]:
        return self._changed_partitions

    def known_operations(self) -> Sequence[Operation]:
        return self._operations

    def stored_state(self, name: str) -> str | None:
        return self._states.get(name)

    def store_state(self, name: str, text: str, *, replacing: str | None) -> bool:
        self._states[name] = text
        return True


def decode(key: StateKey[T], text: str | None) -> T:
    return key.default if text is None else key.decode(text)
