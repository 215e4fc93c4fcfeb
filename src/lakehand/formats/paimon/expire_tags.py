# SPDX-License-Identifier: Apache-2.0
"""Deletes tags whose own time is over, and with a setting the oldest that a table makes by itself.

A tag of a person without a time of its own is never deleted.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from lakehand.formats.paimon.context import PaimonContext, PaimonEffect, set_retention
from lakehand.formats.paimon.layout import SNAPSHOT, Document, TagFile
from lakehand.formats.paimon.snapshot import PaimonSnapshot, moment
from lakehand.spi import Action, Json, Skip, Verdict, at_fixed_rate, kit
from lakehand.spi.kit import Need, duration_text
from lakehand.spi.kit.conversions import fields, items, whole_number
from lakehand.spi.kit.verdicts import done, not_done

CREATED, RETAINED = "tagCreateTime", "tagTimeRetained"
AUTOMATIC, PERIOD, FORM = "tag.automatic-creation", "tag.creation-period", "tag.period-formatter"
OWN_TIME, NUMBER = "time", "number"  # why a tag goes
NAMES = {  # of automatic tags
    ("daily", "with_dashes"): "%Y-%m-%d", ("daily", "without_dashes"): "%Y%m%d",
    ("hourly", "with_dashes"): "%Y-%m-%d %H", ("hourly", "without_dashes"): "%Y%m%d %H",
    ("two-hours", "with_dashes"): "%Y-%m-%d %H", ("two-hours", "without_dashes"): "%Y-%m-%d %H",
}  # fmt: skip
SHOWN = 3
READ_BACK = 50  # tags that a verdict reads
GRACE = kit.retention_setting(
    "paimon.expire-tags.grace", "a tag stays this long after its own time is over", timedelta(days=1), timedelta(days=1)
)
RETAIN_AUTO = kit.count_setting(
    "paimon.expire-tags.retain-auto", "newest tags of `tag.automatic-creation` that are kept; others without a time of"
    " their own are deleted", default_text="none is deleted by number", floor=7, is_retention=True,
    set_by=kit.SetBy.REQUEST,
)  # fmt: skip
MAX_TAGS = kit.count_setting(
    "paimon.expire-tags.max-tags", "tags that one run deletes", 100, floor=1, set_by=kit.SetBy.REQUEST
)


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


def decide(context: PaimonContext) -> Need | Skip:
    found = find_tags(context)
    if not found.by_time and not found.by_number and not context.by_person:
        return Skip(reason=found.describe())
    return Need(reason=found.describe())


def limits(context: PaimonContext) -> dict[str, Json]:
    found = find_tags(context)
    chosen = [(tag, OWN_TIME) for tag in found.by_time] + [(tag, NUMBER) for tag in found.by_number]
    listed: list[Json] = [{"name": tag.name, "sign": tag.sign, "why": why} for tag, why in chosen]
    return {"tags": listed[: context.values[MAX_TAGS]], "tags_before": found.all}


def find_tags(context: PaimonContext) -> TagExpiry:
    tags, grace = context.snapshot.layout.signed_tags(), context.values[GRACE]
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
    return set_retention(context, RETAIN_AUTO)


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


def verify(effect: PaimonEffect) -> Verdict:
    """Exactly the announced tags are gone. One that somebody made anew, or that a branch needs by now, stays."""
    announced = {str(one.get("name")): one.get("sign") for one in map(fields, items(effect.parameters.get("tags")))}
    now = {tag.name: tag for tag in effect.snapshot.layout.signed_tags()}
    kept = [name for name in announced if name in now and name in fields(effect.result.get("kept"))]
    left = [name for name, sign in announced.items() if name in now and now[name].sign == sign and name not in kept]
    before, gone_tags = whole_number(effect.parameters.get("tags_before")), len([n for n in announced if n not in now])
    if left:
        return not_done(f"{len(left)} of {len(announced)} tags are still there, {left[0]} first")
    for tag in list(now.values())[:READ_BACK]:
        effect.snapshot.manifests.content(tag.document)  # what is left can be read; else nobody calls this done
    rest = f"; {len(announced) - gone_tags} were changed meanwhile or are needed" if gone_tags < len(announced) else ""
    numbers: dict[str, Json] = {
        "deleted_tags": gone_tags, "tags_before": before, "tags_after": len(now),
        **kit.work_numbers(files_removed=effect.result.get("deleted_files")),
    }  # fmt: skip
    reason = f"{gone_tags} of {len(announced)} tags are gone{rest}; {before} before, {len(now)} now"
    return done(reason, numbers, changed=gone_tags > 0)


EXPIRE_TAGS = kit.ActionDefinition(
    name=Action.register("expire-tags"), strategy=at_fixed_rate(timedelta(days=1)),
    settings=(GRACE, RETAIN_AUTO, MAX_TAGS), decide=decide, limits=limits, verify=verify, has_dry_run=True,
)  # fmt: skip
