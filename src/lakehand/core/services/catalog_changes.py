# SPDX-License-Identifier: Apache-2.0
"""Compares a catalog with the registered tables: which to add, rename and retire. Pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from lakehand.domain.locations import location_key, normalise
from lakehand.domain.references import TableReference
from lakehand.domain.tables import Table, TableId

MISSES = 2  # syncs in a row that a table must be missing to count as dropped, where most tables are missing


@dataclass(frozen=True, slots=True, kw_only=True)
class Rename:
    table: Table
    reference: TableReference


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogChanges:
    """``missing``: tables that were not listed and are kept for now, for the reason ``why_kept``.

    ``unreadable``: listed, not registered, and without a location, because they cannot be read.
    """

    add: Sequence[TableReference] = ()
    rename: Sequence[Rename] = ()
    retire: Sequence[Table] = ()
    missing: Sequence[Table] = ()
    why_kept: str = ""
    unreadable: Sequence[TableReference] = ()


def changes_of(
    listed: Sequence[TableReference],
    known: Collection[Table],
    missed: Mapping[TableId, int],
    *,
    accept_empty: bool = False,
) -> CatalogChanges:
    """``missed``: how often each table was missing before, in a row."""
    unreadable = {name_of(reference): reference for reference in listed if reference.problem}
    there = by_location([reference for reference in listed if not reference.problem])
    kept = [table for table in known if location_key(table.location) in there]
    others = [table for table in known if location_key(table.location) not in there]
    unread = {named(table) for table in others} & set(unreadable)  # registered, and not readable now: left alone
    absent = [table for table in others if named(table) not in unread]
    retire, missing, why = dropped(absent, kept, listed, missed, accept_empty=accept_empty)
    registered = {location_key(table.location) for table in kept}
    return CatalogChanges(
        add=[references[0] for key, references in there.items() if key not in registered],
        rename=[Rename(table=t, reference=p[0]) for t in kept if not is_named(t, p := there[location_key(t.location)])],
        retire=retire,
        missing=missing,
        why_kept=why,
        unreadable=[reference for name, reference in unreadable.items() if name not in unread],
    )


def by_location(listed: Sequence[TableReference]) -> Mapping[str, list[TableReference]]:
    """A location can have several names; the first one counts where none is registered."""
    found: dict[str, list[TableReference]] = {}
    for reference in listed:
        found.setdefault(location_key(normalise(reference.location)), []).append(reference)
    return found


def is_named(table: Table, references: Sequence[TableReference]) -> bool:
    return named(table) in {name_of(reference) for reference in references}


def named(table: Table) -> tuple[str, str]:
    return table.spec.db_name, table.spec.table_name


def name_of(reference: TableReference) -> tuple[str, str]:
    return reference.db_name, reference.table_name


def dropped(
    absent: Sequence[Table],
    kept: Sequence[Table],
    listed: Sequence[TableReference],
    missed: Mapping[TableId, int],
    *,
    accept_empty: bool,
) -> tuple[list[Table], list[Table], str]:
    """Those to retire, those to keep for now, and why. A catalog that lists little may only seem to be empty."""
    names = {name_of(reference) for reference in listed}
    replaced = [t for t in absent if named(t) in names]  # its name has another location now
    others = [t for t in absent if t not in replaced]
    if not others or accept_empty:
        return [*replaced, *others], [], ""
    if not listed:
        why = f"the catalog lists no table at all, and {len(others)} are registered: if that is right, accept it empty"
        return replaced, others, why
    if len(others) <= len(kept):
        return [*replaced, *others], [], ""
    gone = [t for t in others if missed.get(t.id, 0) + 1 >= MISSES]
    missing = [t for t in others if t not in gone]
    why = f"{len(others)} of {len(others) + len(kept)} are missing at once: the next sync decides" if missing else ""
    return [*replaced, *gone], missing, why
