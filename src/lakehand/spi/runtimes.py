# SPDX-License-Identifier: Apache-2.0
"""What a factory sees of a table: one implementation serves all formats."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic, TypeVar

from lakehand.domain.actions import Action
from lakehand.domain.operations import Operation
from lakehand.domain.references import TableReference
from lakehand.domain.tables import Table
from lakehand.spi.config import TableConfig
from lakehand.spi.formats import TableSnapshot

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class StateKey(Generic[T]):
    """A named piece of state that a factory keeps per table. It outlives the plugin being switched off."""

    name: str
    default: T = field(hash=False)  # a key belongs into sets also where its default is a dict
    encode: Callable[[T], str]
    decode: Callable[[str], T]


class TableRuntime(ABC):
    """One table during one decision."""

    @property
    @abstractmethod
    def table(self) -> Table: ...

    @property
    @abstractmethod
    def reference(self) -> TableReference:
        """Where the table is, with its catalog if it has one."""

    @property
    @abstractmethod
    def config(self) -> TableConfig:
        """The effective configuration, with the origin of each value."""

    @property
    @abstractmethod
    def now(self) -> datetime:
        """The moment of this decision, by the database's clock."""

    @abstractmethod
    def snapshot(self) -> TableSnapshot:
        """The table's metadata, read at the first call and the same for the whole decision."""

    @abstractmethod
    def operations(self, action: Action | None = None) -> Sequence[Operation]:
        """Operations of this table, newest first: all unfinished ones and recent finished ones."""

    @abstractmethod
    def state(self, key: StateKey[T]) -> T: ...

    @abstractmethod
    def update_state(self, key: StateKey[T], change: Callable[[T], T]) -> T: ...
