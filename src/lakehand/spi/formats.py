# SPDX-License-Identifier: Apache-2.0
"""What a table format plugin implements: reading a table's metadata without Spark, cheaply and in full."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import ClassVar, NamedTuple, Protocol

from lakehand.domain.errors import Invalid
from lakehand.domain.processes import Json
from lakehand.domain.tables import Catalog, Format, TableReference
from lakehand.spi.metrics import PluginMetric


class TableSnapshot(Protocol):
    """A table as its metadata describes it at one moment. Each format adds what its decisions need."""

    @property
    def token(self) -> str:
        """The same sign of change that ``probe`` gives."""

    @property
    def numbers(self) -> Mapping[str, Json]:
        """Health in numbers, for people: files, log files, bytes, pending plans, ... Names: ``spi.health``."""


class CommittedTable(NamedTuple):
    """The table that a written object is a commit of, and the commit, as the format counts them."""

    location: str
    version: str


class TableFormat(ABC):
    """Reads tables of one format. Never writes; called from several threads at once."""

    format: ClassVar[Format]

    def open(self, properties: Mapping[str, str]) -> None:
        """Called once before use with the plugin's properties."""

    @abstractmethod
    def probe(self, reference: TableReference) -> str:
        """The cheapest sign of change: an equal token means an unchanged table. Raises OSError when unreadable."""

    @abstractmethod
    def inspect(self, reference: TableReference) -> TableSnapshot:
        """The table's health. Raises OSError when the storage fails, Invalid when this is not a table of the format."""

    def recognise(self, location: str, names: Collection[str]) -> bool:
        """Whether a folder is a table of this format, by the names of the files and folders in it.

        Asked for every folder of a warehouse: answer from the names, and open files only when they match.
        """
        return False

    def commit_of(self, path: str) -> CommittedTable | None:
        """The commit that a newly written object is, by its path alone; None for data files and everything else.

        Called for every object that an object store reports: reads nothing.
        """
        return None

    def metrics(self) -> Sequence[PluginMetric]:
        """What ``/metrics`` shows of it beside Lakehand's own numbers."""
        return ()

    def tables(self, catalog: Catalog) -> Iterator[TableReference]:
        """The tables of a catalog, with their locations. Raises OSError when the catalog cannot be read."""
        raise Invalid(f"{self.format} has no catalogs that Lakehand can list; {catalog.name} names it as its format")
