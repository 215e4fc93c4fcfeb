# SPDX-License-Identifier: Apache-2.0
"""Whether a table has files that nothing refers to, counted before anything is planned."""

from datetime import timedelta

from lakehand.formats.paimon import settings
from lakehand.formats.paimon.expiry import span
from lakehand.formats.paimon.references import Orphans, TooMany, orphans
from lakehand.formats.paimon.settings import ORPHANS, Floors
from lakehand.formats.paimon.snapshot import PaimonSnapshot
from lakehand.spi import Skip, Status, TableProcess, TableRuntime, amount

UNCOUNTED_EVERY = timedelta(days=7)  # for tables too large to be counted by a decision


def decide(table: TableRuntime, snapshot: PaimonSnapshot, floors: Floors) -> TableProcess | Skip:
    if off := settings.switched_off(table.config, ORPHANS):
        return Skip(reason=off)
    age = settings.orphan_age(table.config, floors, {})
    try:
        found = counted(table, snapshot, age)
    except TooMany as many:
        return uncounted(table, str(many))
    except OSError as error:
        return Skip(reason=f"nothing is deleted while its metadata cannot be read: {error}")
    least = max(table.config.number(settings.ORPHANS_AT_LEAST, 1), 1)
    if found.files < least:
        return Skip(reason=f"{told(found, age)}; worth while from {least}")
    return TableProcess(action=ORPHANS, job="paimon.remove_orphans", reason=told(found, age))


def counted(table: TableRuntime, snapshot: PaimonSnapshot, age: timedelta) -> Orphans:
    return orphans(snapshot, table.now - age, table.config.number(settings.LOOK_FILES, 20_000))


def told(found: Orphans, age: timedelta) -> str:
    size = f": {amount(found.bytes)}" if found.files else ""
    return f"{found.files} of {found.listed} files are older than {span(age)} and belong to no snapshot{size}"


def uncounted(table: TableRuntime, many: str) -> TableProcess | Skip:
    """By the time of the last run, where counting would take longer than a decision may."""
    ended = [o.finished_at for o in table.operations(ORPHANS) if o.status is Status.SUCCEEDED and o.finished_at]
    if ended and table.now - ended[0] < UNCOUNTED_EVERY:
        return Skip(reason=f"{many}: not counted; last removed at {ended[0]:%Y-%m-%d %H:%M} UTC, and every 7 days")
    return TableProcess(
        action=ORPHANS, job="paimon.remove_orphans", reason=f"{many}: not counted, so done every 7 days"
    )
