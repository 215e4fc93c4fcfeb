# SPDX-License-Identifier: Apache-2.0
"""What a catalog lists, in a few bytes per table; whole are only those that are not registered as they are listed."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from lakehand.domain.errors import Invalid
from lakehand.domain.locations import location_key, normalise
from lakehand.domain.tables import Table, TableReference

MOST_TABLES = 500_000  # in one catalog
MOST_UNREADABLE = 10_000  # tables with a problem that are named in a report
DIGEST = 16  # bytes

Name = tuple[str, str]


@dataclass(slots=True, kw_only=True)
class Listing:
    """``locations``: of each location whether a table is registered there under a name that is listed."""

    count: int = 0
    locations: dict[bytes, bool] = field(default_factory=dict)
    candidates: list[TableReference] = field(default_factory=list)  # to be added, renamed or left out
    unreadable: list[TableReference] = field(default_factory=list)
    unread: set[Name] = field(default_factory=set)  # the names of all that cannot be read

    def note(self, reference: TableReference, at: Mapping[str, Table], names: Collection[Name]) -> bool:
        """True if the table is surely new. ``at`` and ``names``: what is registered at these locations and names."""
        self.count += 1
        if reference.problem:
            self.note_unreadable(reference)
            return False
        location = normalise(reference.location)
        table, place = at.get(location), place_of(location)
        is_known = table is not None and named(table) == name_of(reference)
        self.locations[place] = is_known or self.locations.get(place, False)
        if is_known:
            return False
        if table is None and name_of(reference) not in names:
            return True
        self.candidates.append(reference)  # renamed or replaced: those need the whole list
        return False

    def note_added(self, reference: TableReference) -> None:
        self.locations[place_of(normalise(reference.location))] = True

    def note_unreadable(self, reference: TableReference) -> None:
        self.unread.add(name_of(reference))
        if len(self.unreadable) < MOST_UNREADABLE:
            self.unreadable.append(reference)


def batches(references: Iterable[TableReference], size: int, catalog: str) -> Iterator[Sequence[TableReference]]:
    """Raises when there are too many: a catalog may list without end."""
    waiting, count = iter(references), 0
    while batch := list(islice(waiting, size)):
        count += len(batch)
        if count > MOST_TABLES:
            raise Invalid(
                f"the catalog {catalog} lists more than {MOST_TABLES} tables, or does not end: none of its tables is"
                " retired. Divide it, or name a smaller warehouse of it"
            )
        yield batch


def place_of(location: str) -> bytes:
    """The identity of a normalised location in few bytes."""
    return bytes.fromhex(location_key(location)[: 2 * DIGEST])


def named(table: Table) -> Name:
    return table.spec.db_name, table.spec.table_name


def name_of(reference: TableReference) -> Name:
    return reference.db_name, reference.table_name
