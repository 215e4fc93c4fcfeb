# SPDX-License-Identifier: Apache-2.0
"""Compares a catalog with the registered tables: which to add, rename and retire. Pure.

Of each listed table a few bytes are kept; whole are only those that are not registered as they are listed.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from lakehand.domain.errors import Invalid
from lakehand.domain.locations import location_key, normalise
from lakehand.domain.tables import Table, TableId, TableReference

MISSES = 2  # syncs in a row that a table must be missing to count as dropped, where most tables are missing
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Rename:
    table: Table
    reference: TableReference


@dataclass(frozen=True, slots=True)
class Absent:
    """A registered table that is not listed. Not the whole table: there may be very many."""

    id: TableId
    name: str
    named: Name


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogChanges:
    """``missing``: tables that were not listed and are kept for now, for the reason ``why_kept``.

    ``unreadable``: listed, not registered, and without a location, because they cannot be read.
    """

    add: Sequence[TableReference] = ()
    rename: Sequence[Rename] = ()
    retire: Sequence[Absent] = ()
    missing: Sequence[Absent] = ()
    why_kept: str = ""
    unreadable: Sequence[TableReference] = ()


def changes_of(
    listed: Listing, known: Iterable[Table], missed: Mapping[TableId, int], *, accept_empty: bool = False
) -> CatalogChanges:
    """``missed``: how often each table was missing before, in a row. ``known`` is read once, and not kept."""
    candidates = by_place(listed.candidates)
    names = {name_of(one) for one in (*listed.candidates, *listed.unreadable)}
    rename: list[Rename] = []
    absent: list[Absent] = []
    unread: set[Name] = set()  # registered, and not readable now: left alone
    kept = 0
    for table in known:
        place = place_of(table.location)
        if place in listed.locations:
            kept += 1
            others = candidates.pop(place, [])
            if others and not listed.locations[place] and named(table) not in map(name_of, others):
                rename.append(Rename(table=table, reference=others[0]))
        elif named(table) in listed.unread:
            unread.add(named(table))
        else:
            absent.append(Absent(table.id, table.name, named(table)))
    retire, missing, why = dropped(absent, kept, listed.count, names, missed, accept_empty=accept_empty)
    return CatalogChanges(
        add=[references[0] for references in candidates.values()],
        rename=rename,
        retire=retire,
        missing=missing,
        why_kept=why,
        unreadable=[one for one in listed.unreadable if name_of(one) not in unread],
    )


def by_place(listed: Sequence[TableReference]) -> dict[bytes, list[TableReference]]:
    """A location can have several names; the first one counts where none is registered."""
    found: dict[bytes, list[TableReference]] = {}
    for reference in listed:
        found.setdefault(place_of(normalise(reference.location)), []).append(reference)
    return found


def dropped(
    absent: Sequence[Absent],
    kept: int,
    listed: int,
    names: Collection[Name],
    missed: Mapping[TableId, int],
    *,
    accept_empty: bool,
) -> tuple[list[Absent], list[Absent], str]:
    """Those to retire, those to keep for now, and why. A catalog that lists little may only seem to be empty."""
    replaced = [one for one in absent if one.named in names]  # its name has another location now
    others = [one for one in absent if one.named not in names]
    if not others or accept_empty:
        return [*replaced, *others], [], ""
    if not listed:
        why = f"the catalog lists no table at all, and {len(others)} are registered: if that is right, accept it empty"
        return replaced, others, why
    if len(others) <= kept:
        return [*replaced, *others], [], ""
    gone = [one for one in others if missed.get(one.id, 0) + 1 >= MISSES]
    missing = [one for one in others if missed.get(one.id, 0) + 1 < MISSES]
    why = f"{len(others)} of {len(others) + kept} are missing at once: the next sync decides" if missing else ""
    return [*replaced, *gone], missing, why
