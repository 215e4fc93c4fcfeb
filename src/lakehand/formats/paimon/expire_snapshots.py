# SPDX-License-Identifier: Apache-2.0
"""Expires old snapshots, from the oldest on, up to the first that anything still needs."""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from lakehand.formats.paimon.context import PaimonContext, PaimonEffect
from lakehand.formats.paimon.layout import SNAPSHOT, Document, Layout
from lakehand.formats.paimon.snapshot import PaimonSnapshot, moment
from lakehand.spi import Action, Invalid, Json, ProcessTriggerStrategy, Skip, TableRuntime, Verdict, kit
from lakehand.spi.kit import Need, duration_text
from lakehand.spi.kit.conversions import milliseconds, whole_number
from lakehand.spi.kit.verdicts import done, not_done

NAME = Action.register("expire-snapshots")
MAX_AGE = kit.retention_setting(
    "paimon.expire-snapshots.max-age", "snapshots are kept this long; the table's own option counts when it is longer",
    timedelta(days=1), timedelta(hours=1), floor_replaces=("paimon.expire-snapshots.age-floor",),
)  # fmt: skip
RETAIN_LAST = kit.retained_count_setting(
    "paimon.expire-snapshots.retain-last", "newest snapshots that are kept whatever their age", 10, 1,
    floor_replaces=("paimon.expire-snapshots.retain-floor",),
)  # fmt: skip
AT_LEAST = kit.count_setting(
    "paimon.expire-snapshots.at-least", "snapshots past their age that make it worth it", 10, floor=1
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiry:
    """``until`` is the first snapshot that stays; tags keep what they need by themselves."""

    until: int
    count: int
    cutoff: datetime
    age: timedelta
    retained: int
    held: str = ""  # who keeps more than age and number do

    def describe(self, snapshot: PaimonSnapshot) -> str:
        held = f"; {self.held}" if self.held else ""
        old = f"{self.count} of {len(snapshot.ids)} snapshots are older than {duration_text(self.age)}"
        return f"{old} and may go, the last {self.retained} stay{held}"


def decide(context: PaimonContext) -> Need | Skip:
    if not context.snapshot.ids and context.operation:
        return Skip(reason="the table has no snapshot: nothing can expire")
    found = expirable(context)
    least = context.values[AT_LEAST] if context.operation is None else 1
    if found.count < least and not context.by_person and not context.was_tried:
        return Skip(reason=f"{found.describe(context.snapshot)}; worth it from {least}")
    return Need(reason=found.describe(context.snapshot))


def limits(context: PaimonContext) -> dict[str, Json]:
    snapshot, found = context.snapshot, expirable(context)
    try:
        read_what_stays(snapshot, found.until)
    except OSError as error:
        raise Invalid(f"nothing expires while its metadata cannot be read: {error}") from error
    return {
        "until": found.until,
        "cutoff": milliseconds(found.cutoff),
        "retain_last": found.retained,
        "earliest": context.first("earliest", snapshot.earliest),
        "snapshots_before": context.first("snapshots_before", len(snapshot.ids)),
        "held": found.held,
    }


def read_what_stays(snapshot: PaimonSnapshot, until: int) -> None:
    """Paimon takes a list that was cut short for an empty one, and would delete what a tag or a snapshot needs."""
    first = snapshot.document(until)
    for document in [*snapshot.layout.tags().values(), *([first] if first else []), snapshot.newest]:
        snapshot.manifests.content(document)


def expirable(context: PaimonContext) -> Expiry:
    """The longest that anyone wants: a request and the table's own options keep more, never less."""
    table, snapshot = context.table, context.snapshot
    age = max(context.values[MAX_AGE], snapshot.schema.retained_for)
    retained = max(context.values[RETAIN_LAST], snapshot.schema.retained)
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

    def is_younger(number: int) -> bool:
        document = snapshot.document(number)
        return document is not None and moment(document) >= cutoff

    found = bisect_left(snapshot.ids, True, key=is_younger)
    return snapshot.ids[found] if found < len(snapshot.ids) else snapshot.latest


def holders(table: TableRuntime, snapshot: PaimonSnapshot) -> Iterator[tuple[int, str]]:
    """(first snapshot that is needed, by whom)"""
    if not snapshot.ids:
        return
    for name, number in snapshot.layout.consumers().items():
        yield number, f"consumer {name}"
    yield from held_by_branches(snapshot)
    for operation in table.operations():
        before = operation.process.parameters.get("before")
        if not operation.status.is_final and isinstance(before, int) and operation.process.action != NAME:
            yield before, f"operation {operation.id}"


def held_by_branches(snapshot: PaimonSnapshot) -> Iterator[tuple[int, str]]:
    """(first snapshot that must stay, which branch): nothing where a tag keeps the snapshot that a branch began at."""
    branches = snapshot.layout.branches()
    tags = list(snapshot.layout.tags().values()) if branches else []
    for name, branch in branches.items():
        needed = needed_by(snapshot, branch, tags)
        if needed is not None:
            yield needed, f"branch {name}"


def needed_by(snapshot: PaimonSnapshot, branch: Layout, tags: list[Document]) -> int | None:
    documents = [branch.snapshot(number) for number in branch.ids(SNAPSHOT)] + list(branch.tags().values())
    if not documents:
        return None
    untagged = [one["id"] for one in documents if is_of_main(snapshot, one) and not is_among(tags, one)]
    if untagged:
        return int(min(untagged))
    if any(is_among(tags, one) for one in documents) or min(one["id"] for one in documents) == 1:
        return None  # kept by a tag; or a branch that began empty, with files of its own only
    return snapshot.earliest  # it began at a snapshot that is no longer known: nothing of the main line may go


def is_of_main(snapshot: PaimonSnapshot, document: Document) -> bool:
    """A branch begins with a copy of a snapshot of the main line; its own commits have other manifest lists."""
    same = snapshot.document(document["id"]) if document["id"] in snapshot.ids else None
    return same is not None and is_among([same], document)


def is_among(documents: list[Document], one: Document) -> bool:
    return any(one["deltaManifestList"] == other["deltaManifestList"] for other in documents)


def verify(effect: PaimonEffect) -> Verdict:
    snapshot, parameters = effect.snapshot, effect.parameters
    until, earliest = whole_number(parameters.get("until")), whole_number(parameters.get("earliest"))
    left = [one for one in snapshot.ids if one < until]
    before = whole_number(parameters.get("snapshots_before"))
    if left and "expired" not in effect.result:
        return not_done(f"{len(left)} snapshots before {until} are still there")
    rest = f"; {len(left)} were kept by Paimon" if left else ""
    return done(
        f"{before} snapshots before, {len(snapshot.ids)} now; the oldest is {snapshot.earliest}{rest}",
        {
            "snapshots_before": before, "snapshots_after": len(snapshot.ids),
            "earliest_before": earliest, "earliest_after": snapshot.earliest,
        },
        changed=snapshot.earliest > earliest,
    )  # fmt: skip


EXPIRE_SNAPSHOTS = kit.ActionDefinition(
    name=NAME, strategy=ProcessTriggerStrategy(interval=timedelta(hours=1), on_new_snapshot=True),
    settings=(MAX_AGE, RETAIN_LAST, AT_LEAST), decide=decide, limits=limits, verify=verify, has_dry_run=True,
)  # fmt: skip
