# SPDX-License-Identifier: Apache-2.0
"""Rows past an age, by a column: their cutoff, what the files say about them, and when deleting them is worth it.

Rows go on purpose: only where somebody named the column and the age, never below a floor, and never without a value.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, NamedTuple

from lakehand.domain.processes import Json, Skip
from lakehand.domain.texts import amount
from lakehand.spi.kit.conversions import milliseconds, moment_of
from lakehand.spi.kit.factory import DecisionContext, Need
from lakehand.spi.kit.rows import SetBy, SettingRow, duration_setting, duration_text, text_setting

DAY = timedelta(days=1)
MICROSECOND = timedelta(microseconds=1)
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
# Neither a date nor a time without a zone says in which zone it was made: none is further behind than this.
ZONES = timedelta(hours=12)
MOST_SHARE = 0.5  # of the table's bytes: a table of three months that keeps two loses a third at once
CUTOFF, COLUMN = "cutoff", "column"  # in the parameters of a process


class ExpirySettings(NamedTuple):
    """The settings of ``expire-data`` of one format."""

    column: SettingRow[str]
    max_age: SettingRow[timedelta]
    rewrite_after: SettingRow[timedelta]


def expiry_settings(format: str) -> ExpirySettings:
    return ExpirySettings(
        column=text_setting(
            f"{format}.expire-data.column",
            "the column by which rows grow old, a date or a timestamp; without it no row is deleted",
        ),
        max_age=duration_setting(
            f"{format}.expire-data.max-age", "rows are kept this long by their column; without it no row is deleted",
            floor=7 * DAY, is_retention=True, set_by=SetBy.REQUEST,
        ),
        rewrite_after=duration_setting(
            f"{format}.expire-data.rewrite-after",
            "files that also have younger rows are rewritten when their oldest row is past its age by this", 7 * DAY,
        ),
    )  # fmt: skip


class FileRange(NamedTuple):
    """What metadata says of a file's values, in microseconds since 1970."""

    bytes: int
    oldest: int | None  # None: it is not known
    newest: int | None  # None: it is not known, or the file may have rows without a value


class FileGroup(NamedTuple):
    files: int
    bytes: int

    def __str__(self) -> str:
        return f"{self.files} files with {amount(self.bytes)}"


def group_of(ranges: Iterable[FileRange]) -> FileGroup:
    sizes = [one.bytes for one in ranges]
    return FileGroup(len(sizes), sum(sizes))


@dataclass(frozen=True, slots=True, kw_only=True)
class DataExpiry:
    """The files of a table by a cutoff."""

    cutoff: datetime
    every: FileGroup
    whole: FileGroup  # all of their rows are past it
    mixed: FileGroup  # some of their rows are past it
    oldest_mixed: int | None  # in microseconds since 1970, as damaged rows may be of any year
    unknown: int  # files that do not say

    def describe(self, column: str) -> str:
        some = f", and {self.mixed} have younger rows, too" if self.mixed.files else ""
        silent = f"; {self.unknown} files do not say" if self.unknown else ""
        return f"{self.whole} of {self.every} have only rows with {column} before {self.cutoff:%Y-%m-%d}{some}{silent}"


def expiry_of(ranges: Iterable[FileRange], cutoff: datetime) -> DataExpiry:
    files, limit = list(ranges), microseconds(cutoff)
    whole = [one for one in files if one.newest is not None and one.newest < limit]
    mixed = [
        one
        for one in files
        if one.oldest is not None and one.oldest < limit and (one.newest is None or one.newest >= limit)
    ]
    return DataExpiry(
        cutoff=cutoff, every=group_of(files), whole=group_of(whole), mixed=group_of(mixed),
        oldest_mixed=min((one.oldest for one in mixed if one.oldest is not None), default=None),
        unknown=sum(one.oldest is None and (one.newest is None or one.newest >= limit) for one in files),
    )  # fmt: skip


def microseconds(moment: datetime) -> int:
    return (moment - EPOCH) // MICROSECOND


def cutoff_of(
    context: DecisionContext[Any], settings: ExpirySettings, *, has_zone: bool, period: str = "day"
) -> datetime:
    """Rows before this moment are past their age: never later than at the first admission, and whole days only.

    ``period``: what the table is partitioned by, so that whole partitions go.
    """
    latest = context.table.now - context.values[settings.max_age] - (timedelta() if has_zone else ZONES)
    stored = context.first(CUTOFF, None)
    if isinstance(stored, int):
        latest = min(latest, moment_of(stored))
    day = latest.replace(hour=0, minute=0, second=0, microsecond=0)
    return {"day": day, "month": day.replace(day=1), "year": day.replace(month=1, day=1)}[period]


def why_off(context: DecisionContext[Any], settings: ExpirySettings) -> str | None:
    """A request can name neither: somebody must have said it of the table."""
    for row in (settings.column, settings.max_age):
        if not context.table.config.text(row.key):
            return f"no row is deleted: {row.key} is not set, and has no default"
    return None


def decide_expiry(context: DecisionContext[Any], settings: ExpirySettings, found: DataExpiry) -> Need | Skip:
    """Files that go as a whole go soon. A rewrite for the sake of some rows must not cost more than it frees, unless
    these rows are long past their age."""
    age = duration_text(context.values[settings.max_age])
    text = f"{found.describe(context.values[settings.column])}: rows are kept for {age}"
    need = Need(reason=text, bytes=found.mixed.bytes)
    if context.by_person:
        return need
    if not found.whole.files and not found.mixed.files:
        return Skip(reason=text)
    if found.whole.bytes > MOST_SHARE * found.every.bytes:
        return Skip(reason=f"{text}; {confirmation(context)}")
    patience = context.values[settings.rewrite_after]
    is_late = found.oldest_mixed is not None and found.oldest_mixed <= microseconds(found.cutoff - patience)
    if is_late or (found.whole.files and found.whole.bytes >= found.mixed.bytes):
        return need
    return Skip(
        reason=f"{text}; the rewrite would cost more than it frees, and waits until a row is {duration_text(patience)}"
        " past its age"
    )


def confirmation(context: DecisionContext[Any]) -> str:
    """A table that nobody writes any more expires as a whole, and so does one with a wrong column."""
    submit = f"lakehand operations submit {context.table.table.id} {context.action}"
    return f"more than {MOST_SHARE:.0%} is deleted only when confirmed: see {submit} --dry-run, then --confirm"


def expiry_parameters(column: str, cutoff: datetime) -> dict[str, Json]:
    return {COLUMN: column, CUTOFF: milliseconds(cutoff)}
