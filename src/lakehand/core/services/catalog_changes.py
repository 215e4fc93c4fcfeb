# SPDX-License-Identifier: Apache-2.0
"""Compares a catalog with the registered tables: which to add, rename and retire. Pure."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from lakehand.core.services.catalog_listing import Listing, Name, name_of, named, place_of
from lakehand.domain.locations import normalise
from lakehand.domain.tables import Table, TableId, TableReference

MISSES = 2  # syncs in a row that a table must be missing to count as dropped, where most tables are missing


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
