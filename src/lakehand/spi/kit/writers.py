# SPDX-License-Identifier: Apache-2.0
"""Other writers: where their commits and ours may be made at once, and when a rewrite leaves room for theirs.

Where a lost commit shows no error, doubt is a refusal. A row-level write that began before a rewrite is committed would
lose against it: so a rewrite waits until a table is quiet, and a table whose rows are changed rests after a rewrite.
Only rewrites of data count: what changes manifests or deletes old files is in nobody's way.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

from lakehand.domain.locations import storage_scheme
from lakehand.domain.processes import Skip
from lakehand.spi.kit.rows import SettingRow, duration_setting, flag_setting
from lakehand.spi.kit.settings import Values
from lakehand.spi.pauses import minutes

LOCAL = ""
# One of two that rename to the same name fails. Object stores overwrite instead.
ATOMIC_RENAME = frozenset({LOCAL, "hdfs", "viewfs"})
STARVED = 6  # times its own length that a pause may keep a rewrite waiting before that is named
DEFAULT_REST = timedelta(minutes=10)


def only_writer_setting(format: str, **more: tuple[str, ...]) -> SettingRow[bool]:
    return flag_setting(
        f"{format}.only-writer",
        "nobody but Lakehand writes to the table, so that its commits need no protection from those of others", False,
        **more,
    )  # fmt: skip


def commit_risk(location: str, safe: frozenset[str], only_writer: SettingRow[bool], *, what: str, way_out: str) -> str:
    """Empty where commits are safe. ``what`` happens to two commits, and the ``way_out``, are the format's to say."""
    scheme = storage_scheme(location)
    if scheme in safe:
        return ""
    return (
        f"on {scheme}:// {what}, without an error, when a writer commits at the same moment. {way_out}; "
        f"or set {only_writer.key}=true for this table if nobody but Lakehand writes to it"
    )


class RoomSettings(NamedTuple):
    """The two settings of a format whose rewrites are in the way of row-level writes."""

    quiet: SettingRow[timedelta]
    rest: SettingRow[timedelta]


class CommitHistory(NamedTuple):
    """Times of a table's last commits, in any order."""

    writes: Iterable[datetime]  # by others
    rewrites: Iterable[datetime]  # by Lakehand, of data or deletes
    has_row_level_writers: bool  # rows were deleted or updated lately


def room_settings(format: str, what: str, *, replaces: tuple[str, str] | None = None) -> RoomSettings:
    """``what`` is rewritten; ``replaces``: older names of the two."""
    quiet, rest = ((one,) for one in replaces) if replaces else ((), ())
    return RoomSettings(
        quiet=duration_setting(
            f"{format}.quiet-period", f"{what} are rewritten only when the last commit of others is this old",
            timedelta(), replaces=quiet,
        ),
        rest=duration_setting(
            f"{format}.rest-period", "time between two rewrites of a table whose rows somebody deletes or updates",
            DEFAULT_REST, replaces=rest,
        ),
    )  # fmt: skip


class Pause(NamedTuple):
    """One of the two, while it lasts."""

    reason: str
    until: datetime
    row: SettingRow[timedelta]
    length: timedelta


def leave_room(history: CommitHistory, settings: RoomSettings, values: Values, now: datetime) -> Skip | None:
    """Why a rewrite that is needed waits, and for how long; None when it need not."""
    quiet, rest = values[settings.quiet], values[settings.rest]
    writes, rewrites = list(history.writes), list(history.rewrites) if history.has_row_level_writers else []
    pauses = []
    if writes:
        reason = f"the last commit is younger than {minutes(quiet)}: decided again then"
        pauses.append(Pause(reason, max(writes) + quiet, settings.quiet, quiet))
    if rewrites:
        reason = f"rewritten at {max(rewrites):%H:%M} UTC: row-level writers have {minutes(rest)} to themselves"
        pauses.append(Pause(reason, max(rewrites) + rest, settings.rest, rest))
    pause = next((one for one in pauses if one.until > now), None)
    if pause is None:
        return None
    spans = [*((at, at + quiet) for at in writes), *((at, at + rest) for at in rewrites)]
    return waiting(pause, blocked_since(spans, now), now)


def waiting(pause: Pause, since: datetime, now: datetime) -> Skip:
    """One that does not end says since when: a busy table may leave no moment for a rewrite at all."""
    if now - since <= STARVED * pause.length:
        return Skip(reason=pause.reason, look_again=pause.until - now)
    way_out = f"shorten {pause.row.key}, let the writers pause, or request it yourself"
    text = f"{pause.reason}. No moment was free since {since:%Y-%m-%d %H:%M} UTC: {way_out}"
    return Skip(reason=text, look_again=pause.until - now, is_starved=True)


def blocked_since(spans: Iterable[tuple[datetime, datetime]], now: datetime) -> datetime:
    """The begin of the spans that leave no moment between them up to now."""
    since = now
    for begin, end in sorted(spans, key=lambda span: span[1], reverse=True):
        if end < since:
            break
        since = min(since, begin)
    return since
