# SPDX-License-Identifier: Apache-2.0
"""Keeps tables apart: no registered table is, contains or lies in another one, whatever links lead there."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from lakehand.core.ports import Store
from lakehand.domain.errors import LocationTaken, Unavailable
from lakehand.domain.locations import BOUNDARY, is_under, location_key, overlap, path_key, same_scheme
from lakehand.domain.operations import Operation
from lakehand.domain.tables import Table


def unresolved(location: str) -> str:
    """The location itself, where links cannot be followed."""
    return location


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlapGuard:
    store: Store
    real_path: Callable[[str], str] = unresolved  # a location with all links resolved
    warehouses: Sequence[str] = ()  # they may be links themselves, which makes no table one

    def check_new(self, location: str) -> str:
        """The real path of a location, which may be registered; raises LocationTaken if it may not be."""
        real = self.real_path(location)
        found = list(self.others(real))
        if not any(same_location(table.location, location) for table, _ in found):
            for table, its in found:
                raise LocationTaken(refusal(location, real, table, its))
        return real

    def check(self, table: Table, real: str, known: Sequence[Table] | None = None) -> None:
        """Raise unless the table may be worked on at its real path now.

        ``known``: what overlaps with the path as it is stored; None: not read yet.
        """
        for other in self.outranked(table, real, known):
            self.wait_for(other, real)

    def check_link(self, location: str) -> None:
        """Raise unless a registered location may be read, if links lead elsewhere: else it was checked before."""
        real = self.real_path(location)
        if self.is_linked(location, real):
            for table in self.store.tables.by_locations([location]).values():
                self.outranked(table, real)

    def outranked(self, table: Table, real: str, known: Sequence[Table] | None = None) -> Sequence[Table]:
        """Tables that overlap with this one, and for which it need not step back.

        Two can overlap by a link that was put there later, or by two registrations at one time. One of them is
        served: that which is reached without a link, else the older one.
        """
        if table.path_key != path_key(real):
            self.store.tables.set_real(table.id, real)  # before the others are read: of two at a time one sees both
            known = None
        others = [(other, its) for other, its in self.others(real, known) if other.id != table.id]
        for other, its in others:
            if self.rank(other, its) < self.rank(table, real):
                raise LocationTaken(refusal(table.location, real, other, its))
        return [other for other, _ in others]

    def others(self, real: str, known: Sequence[Table] | None = None) -> Iterator[tuple[Table, str]]:
        """Tables that overlap with this path, each with its real path now: links may have changed."""
        for table in self.store.tables.overlapping(real) if known is None else known:
            its = self.real_path(table.location)
            if overlap(real, its):
                yield table, its

    def rank(self, table: Table, real: str) -> tuple[bool, int]:
        return self.is_linked(table.location, real), table.id

    def is_linked(self, location: str, real: str) -> bool:
        """Whether a link below the warehouse leads to the real path."""
        if real == location:
            return False
        above = next((one for one in self.warehouses if is_under(location, one)), "")
        return same_scheme(real) != same_scheme(self.real_path(above) + location[len(above) :] if above else location)

    def wait_for(self, other: Table, real: str) -> None:
        """Raise while an operation of another table may work at this path."""
        for operation in self.store.operations.of_table(other.id, recent=0):
            is_being_admitted = operation.lease is not None and not operation.status.is_live
            is_here = operation.status.is_live and overlap(real, admitted_path(operation) or real)
            if is_being_admitted or is_here:
                raise Unavailable(f"operation {operation.id} of {named(other)} works in the same folder")


def admitted_path(operation: Operation) -> str:
    """The real path that a live operation was admitted for; empty if it is not known."""
    boundary = operation.process.parameters.get(BOUNDARY)
    return str(boundary.get("real", "")) if isinstance(boundary, Mapping) else ""


def same_location(one: str, other: str) -> bool:
    return location_key(one) == location_key(other)


def named(table: Table) -> str:
    return f"table {table.id} ({table.name} at {table.location})"


def refusal(location: str, real: str, other: Table, its: str) -> str:
    led = "" if same_scheme(real) == same_scheme(location) else f", which leads to {real},"
    return (
        f"{location}{led} {relation(real, its)} the registered {named(other)}: a folder belongs to one table; use that "
        f"one, or remove it first with lakehand tables remove {other.id}"
    )


def relation(real: str, its: str) -> str:
    """How a path stands to one that it overlaps with."""
    if same_scheme(real) == same_scheme(its):
        return "is the folder of"
    return "lies in" if len(same_scheme(real)) > len(same_scheme(its)) else "contains"
