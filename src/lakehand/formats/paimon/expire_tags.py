# SPDX-License-Identifier: Apache-2.0
"""Which tags may go: those whose own time is over, and with a setting the oldest that a table makes by itself.

A tag of a person without a time of its own is never deleted.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from lakehand.formats.paimon import settings
from lakehand.formats.paimon.layout import SNAPSHOT, Document, TagFile
from lakehand.formats.paimon.settings import PaimonContext, set_retention
from lakehand.formats.paimon.snapshot import PaimonSnapshot, moment
from lakehand.spi import Json, Skip
from lakehand.spi.kit import Need, duration_text

CREATED, RETAINED = "tagCreateTime", "tagTimeRetained"
AUTOMATIC, PERIOD, FORM = "tag.automatic-creation", "tag.creation-period", "tag.period-formatter"
OWN_TIME, NUMBER = "time", "number"  # why a tag goes
NAMES = {  # of automatic tags
    ("daily", "with_dashes"): "%Y-%m-%d", ("daily", "without_dashes"): "%Y%m%d",
    ("hourly", "with_dashes"): "%Y-%m-%d %H", ("hourly", "without_dashes"): "%Y%m%d %H",
    ("two-hours", "with_dashes"): "%Y-%m-%d %H", ("two-hours", "without_dashes"): "%Y-%m-%d %H",
}  # fmt: skip
SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class TagExpiry:
    """``by_time`` and ``by_number`` may go; ``held`` would, if no branch began there."""

    by_time: tuple[TagFile, ...]
    by_number: tuple[TagFile, ...]
    held: int
    all: int
    grace: timedelta
    retained: int | None  # automatic ones, if someone set it

    def describe(self) -> str:
        text = f"{len(self.by_time)} of {self.all} tags are past their own time by {duration_text(self.grace)}"
        if self.retained is not None:
            text += f", {len(self.by_number)} are automatic and not among the last {self.retained}"
        names = [tag.name for tag in (*self.by_time, *self.by_number)]
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        shown = f": {', '.join(names[:SHOWN])}{more}" if names else ""
        return f"{text}{shown}{f'; {self.held} are kept for branches' if self.held else ''}"


def decide_expire_tags(context: PaimonContext) -> Need | Skip:
    found = find_tags(context)
    if not found.by_time and not found.by_number and not context.by_person:
        return Skip(reason=found.describe())
    return Need(reason=found.describe())


def tag_limits(context: PaimonContext) -> dict[str, Json]:
    found = find_tags(context)
    chosen = [(tag, OWN_TIME) for tag in found.by_time] + [(tag, NUMBER) for tag in found.by_number]
    listed: list[Json] = [{"name": tag.name, "sign": tag.sign, "why": why} for tag, why in chosen]
    return {"tags": listed[: context.values[settings.MAX_TAGS]], "tags_before": found.all}


def find_tags(context: PaimonContext) -> TagExpiry:
    tags, grace = context.snapshot.layout.signed_tags(), context.values[settings.TAG_GRACE]
    retained, needed = automatic_number(context), branch_starts(context.snapshot)
    until = context.table.now - grace
    old = [tag for tag in tags if (end := end_of(tag.document)) is not None and end < until]
    beyond = automatic(context, tags)[retained:] if retained is not None else []
    beyond = [tag for tag in beyond if moment(tag.document) < until]
    free = [[tag for tag in found if tag.document.get("deltaManifestList") not in needed] for found in (old, beyond)]
    return TagExpiry(
        by_time=tuple(free[0]), by_number=tuple(free[1]), held=len(old) + len(beyond) - len(free[0]) - len(free[1]),
        all=len(tags), grace=grace, retained=retained,
    )  # fmt: skip


def end_of(document: Document) -> datetime | None:
    """When a tag's own time is over; None when it has none, or none that Lakehand can read.

    Its zone is not known: the floor of the grace is longer than zones differ.
    """
    created, seconds = local_time(document.get(CREATED)), document.get(RETAINED)
    if created is None or isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or seconds < 0:
        return None
    try:
        return created + timedelta(seconds=seconds)
    except OverflowError:
        return None


def local_time(value: Any) -> datetime | None:
    """A list of year, month, day, hour, minute and more, as Paimon 0.9 writes it."""
    if not isinstance(value, list) or not 5 <= len(value) <= 7 or not all(type(one) is int for one in value):
        return None
    try:
        return datetime(*value[:6]).replace(tzinfo=timezone.utc)  # noqa: DTZ001 - its zone is not known
    except ValueError:
        return None


def automatic_number(context: PaimonContext) -> int | None:
    if context.snapshot.schema.options.get(AUTOMATIC, "none").lower() == "none":
        return None
    return set_retention(context, settings.RETAIN_AUTO)


def automatic(context: PaimonContext, tags: Iterable[TagFile]) -> list[TagFile]:
    """Tags with the names that this table makes and no time of their own, newest first."""
    options = context.snapshot.schema.options
    form = NAMES.get((options.get(PERIOD, "daily"), options.get(FORM, "with_dashes")))
    found = [tag for tag in tags if form and is_of_form(tag.name, form) and RETAINED not in tag.document]
    return sorted(found, key=lambda tag: tag.name, reverse=True)


def is_of_form(name: str, form: str) -> bool:
    try:
        return datetime.strptime(name, form).replace(tzinfo=timezone.utc).strftime(form) == name
    except ValueError:
        return False


def branch_starts(snapshot: PaimonSnapshot) -> set[str]:
    """The delta lists of all that branches hold: a tag with one of them keeps the branch's first files."""
    return {str(one["deltaManifestList"]) for one in branch_documents(snapshot)}


def branch_documents(snapshot: PaimonSnapshot) -> Iterator[Document]:
    for branch in snapshot.layout.branches().values():
        yield from (branch.snapshot(number) for number in branch.ids(SNAPSHOT))
        yield from branch.tags().values()
