# SPDX-License-Identifier: Apache-2.0
"""Which snapshots may go: old ones, from the oldest on, up to the first that anything still needs."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from lakehand.formats.paimon import settings
from lakehand.formats.paimon.branches import held_by_branches
from lakehand.formats.paimon.settings import EXPIRE, Floors
from lakehand.formats.paimon.snapshot import PaimonSnapshot, moment
from lakehand.spi import Json, Skip, TableProcess, TableRuntime


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiry:
    """``until`` is the first snapshot that stays; tags keep what they need by themselves."""

    until: int
    count: int
    cutoff: datetime
    age: timedelta
    retained: int
    held: str = ""  # who keeps more than age and number do

    def told(self, snapshot: PaimonSnapshot) -> str:
        held = f"; {self.held}" if self.held else ""
        return (
            f"{self.count} of {len(snapshot.ids)} snapshots are older than {span(self.age)} and may go, the last "
            f"{self.retained} stay{held}"
        )


def decide(table: TableRuntime, snapshot: PaimonSnapshot, floors: Floors) -> TableProcess | Skip:
    if off := settings.switched_off(table.config, EXPIRE):
        return Skip(reason=off)
    found = expirable(table, snapshot, floors, {})
    least = max(table.config.number(settings.EXPIRE_AT_LEAST, 10), 1)
    if found.count < least:
        return Skip(reason=f"{found.told(snapshot)}; worth while from {least}")
    return TableProcess(action=EXPIRE, job="paimon.expire_snapshots", reason=found.told(snapshot))


def expirable(table: TableRuntime, snapshot: PaimonSnapshot, floors: Floors, asked: Mapping[str, Json]) -> Expiry:
    age = settings.snapshot_age(table.config, floors, asked, snapshot.schema.retained_for)
    retained = settings.retain_last(table.config, floors, asked, snapshot.schema.retained)
    cutoff = table.now - age
    by_age = first_younger(snapshot, cutoff)
    until = min(by_age, snapshot.latest - retained + 1)
    held = ""
    for number, who in holders(table, snapshot):
        if number < until:
            until, held = number, f"{who} needs snapshot {number}"
    until = max(until, snapshot.earliest)
    count = sum(number < until for number in snapshot.ids)
    return Expiry(until=until, count=count, cutoff=cutoff, age=age, retained=retained, held=held)


def first_younger(snapshot: PaimonSnapshot, cutoff: datetime) -> int:
    """Times grow with the numbers, so that a few reads find the border."""
    found = bisect_left(snapshot.ids, True, key=lambda number: is_younger(snapshot, number, cutoff))
    return snapshot.ids[found] if found < len(snapshot.ids) else snapshot.latest


def is_younger(snapshot: PaimonSnapshot, number: int, cutoff: datetime) -> bool:
    document = snapshot.document(number)
    return document is not None and moment(document) >= cutoff


def holders(table: TableRuntime, snapshot: PaimonSnapshot) -> Iterator[tuple[int, str]]:
    """(first snapshot that is needed, by whom)"""
    if not snapshot.ids:
        return
    for name, number in snapshot.layout.consumers().items():
        yield number, f"consumer {name}"
    yield from held_by_branches(snapshot)
    for operation in table.operations():
        before = operation.process.parameters.get("before")
        if not operation.status.is_final and isinstance(before, int) and operation.process.action != EXPIRE:
            yield before, f"operation {operation.id}"


def span(age: timedelta) -> str:
    hours = age.total_seconds() / 3600
    return f"{hours / 24:g} d" if hours >= 48 else f"{hours:g} h"
