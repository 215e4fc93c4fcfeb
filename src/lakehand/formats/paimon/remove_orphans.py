# SPDX-License-Identifier: Apache-2.0
"""Removes files that nothing refers to: not snapshots, tags, changelogs or branches.

Counted before anything is planned. What cannot be read is never taken for empty.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from lakehand.formats.paimon.context import PaimonContext, PaimonEffect
from lakehand.formats.paimon.layout import SNAPSHOT, Document, Layout, Manifests, PaimonManifest
from lakehand.formats.paimon.snapshot import PaimonSnapshot
from lakehand.spi import Action, Invalid, Json, Skip, Status, TableRuntime, Verdict, amount, at_fixed_rate, kit
from lakehand.spi.kit import Need, duration_text
from lakehand.spi.kit.conversions import milliseconds, moment_of, whole_number
from lakehand.spi.kit.verdicts import done, not_done
from lakehand.storage import Entry

UNCOUNTED_EVERY = timedelta(days=7)  # for tables too large to be counted by a decision
LISTS = ("baseManifestList", "deltaManifestList", "changelogManifestList")
METADATA_FOLDERS = ("manifest", "index", "statistics")
BUCKET = "bucket-"
OUTLIVED = "outlived"  # our own field in the document of a changelog
NAME = Action.register("remove-orphans")
OLDER_THAN = kit.retention_setting(
    "paimon.remove-orphans.older-than", "files that were written since are left alone", timedelta(days=3),
    timedelta(days=3),
    replaces=("paimon.remove-orphans.min-age",), floor_replaces=("paimon.remove-orphans.age-floor",),
)  # fmt: skip
AT_LEAST = kit.count_setting("paimon.remove-orphans.at-least", "orphans that make it worth it", 1, floor=1)
MOST_FILES = kit.count_setting(
    "paimon.remove-orphans.look-files", "files and snapshots that a decision compares at most", 20_000
)


def decide(context: PaimonContext) -> Need | Skip:
    if context.by_person or context.was_tried:
        return Need(reason="")
    age = context.values[OLDER_THAN]
    try:
        found = count_orphans(context.snapshot, context.table.now - age, context.values[MOST_FILES])
    except TooMany as many:
        return decide_uncounted(context.table, str(many))
    except OSError as error:
        return Skip(reason=f"nothing is deleted while its metadata cannot be read: {error}")
    least, size = context.values[AT_LEAST], f": {amount(found.bytes)}" if found.files else ""
    where = f"{found.files} of {found.listed} files are older than {duration_text(age)}"
    text = f"{where} and belong to no snapshot{size}"
    return Need(reason=text) if found.files >= least else Skip(reason=f"{text}; worth it from {least}")


def decide_uncounted(table: TableRuntime, many: str) -> Need | Skip:
    """By the time of the last run, where counting would take longer than a decision may."""
    ended = [o.finished_at for o in table.operations(NAME) if o.status is Status.SUCCEEDED and o.finished_at]
    if ended and table.now - ended[0] < UNCOUNTED_EVERY:
        return Skip(reason=f"{many}: not counted; last removed at {ended[0]:%Y-%m-%d %H:%M} UTC, and every 7 days")
    return Need(reason=f"{many}: not counted, so done every 7 days")


def limits(context: PaimonContext) -> dict[str, Json]:
    try:
        used_names(context.snapshot, context.values[MOST_FILES])
    except TooMany:
        pass  # the job reads them all, and stops at the first that it cannot read
    except OSError as error:
        raise Invalid(f"nothing is deleted while its metadata cannot be read: {error}") from error
    return {"older_than": milliseconds(context.table.now - context.values[OLDER_THAN])}


class TooMany(Exception):
    """More than a decision reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanCount:
    files: int
    bytes: int
    listed: int


def count_orphans(snapshot: PaimonSnapshot, older_than: datetime, limit: int) -> OrphanCount:
    """Files first, references second: what is written meanwhile is not taken for an orphan."""
    listed = 0
    old: list[Entry] = []
    for entry in files_of(snapshot):
        listed += 1
        if listed > limit:
            raise TooMany(f"more than {limit} files")
        if entry.modified < older_than:
            old.append(entry)
    used = used_names(snapshot, limit) if old else set()
    lost = [entry for entry in old if entry.name not in used]
    return OrphanCount(files=len(lost), bytes=sum(entry.size for entry in lost), listed=listed)


def files_of(snapshot: PaimonSnapshot) -> Iterator[Entry]:
    root = snapshot.layout.root
    for folder in METADATA_FOLDERS:
        yield from entries(snapshot, f"{root}/{folder}")
    for bucket in bucket_folders(snapshot, root, len(snapshot.schema.partition_keys)):
        yield from entries(snapshot, bucket)


def entries(snapshot: PaimonSnapshot, folder: str) -> list[Entry]:
    try:
        return snapshot.storage.entries(folder)
    except FileNotFoundError:
        return []


def bucket_folders(snapshot: PaimonSnapshot, folder: str, depth: int) -> Iterator[str]:
    names = sorted(snapshot.storage.folders(folder))
    if depth == 0:
        yield from (f"{folder}/{name}" for name in names if name.startswith(BUCKET))
        return
    for name in names:
        if "=" in name:
            yield from bucket_folders(snapshot, f"{folder}/{name}", depth - 1)


def used_names(snapshot: PaimonSnapshot, limit: int) -> set[str]:
    """Raises OSError when anything that is referred to cannot be read, so that nothing is deleted then."""
    if not snapshot.ids:
        raise OSError("the table has no snapshot: every file would look like an orphan")
    used: set[str] = set()
    read: set[str] = set()
    for count, document in enumerate(roots(snapshot.layout)):
        if count >= limit:
            raise TooMany(f"more than {limit} snapshots")
        used |= {str(document[key]) for key in (*LISTS, "indexManifest", "statistics") if document.get(key)}
        for manifest in manifests_of(snapshot.manifests, document):
            if manifest.name not in read:
                read.add(manifest.name)
                # Deleted files, too: an older snapshot may still read them.
                files = [entry.file for entry in snapshot.manifests.entries(manifest)]
                used |= {name for file in files for name in (file.name, *file.extra)}
        if index := document.get("indexManifest"):
            used |= {str(one["_FILE_NAME"]) for one in snapshot.manifests.records(index)}
    return used | read


def manifests_of(manifests: Manifests, document: Document) -> Iterator[PaimonManifest]:
    """Of a changelog that outlives its snapshot Paimon keeps the lists that it needs; all others must be there."""
    count = 0
    for key in LISTS:
        try:
            for manifest in manifests.of_lists(document, key):
                count += 1
                yield manifest
        except FileNotFoundError:
            if not document.get(OUTLIVED) or key == LISTS[-1]:
                raise
    if not count and not document.get(OUTLIVED) and (document.get("totalRecordCount") or 0) > 0:
        raise OSError(f"snapshot {document['id']} has rows and no manifest")


def roots(layout: Layout) -> Iterator[Document]:
    """Everything that keeps files: of the main line, then of each branch."""
    for number in layout.ids(SNAPSHOT):
        yield layout.snapshot(number)
    yield from layout.tags().values()
    yield from ({**one, OUTLIVED: True, "indexManifest": None} for one in layout.changelogs())
    for branch in layout.branches().values():
        yield from roots(branch)


def verify(effect: PaimonEffect) -> Verdict:
    older_than = moment_of(whole_number(effect.parameters.get("older_than")))
    deleted = effect.result.get("deleted_files")
    try:
        limit = kit.FormatSettings(MOST_FILES).of(effect.table.config)[MOST_FILES]
        found = count_orphans(effect.snapshot, older_than, limit)
    except TooMany as many:
        if not isinstance(deleted, int):
            return not_done(f"{many}: nobody knows whether any was deleted")
        reason = f"{deleted} files were deleted; {many} are not counted again"
        return done(reason, kit.work_numbers(files_removed=deleted), changed=deleted > 0)
    if found.files:
        return not_done(f"{found.files} of {found.listed} files belong to no snapshot")
    how = f"{deleted} were deleted" if isinstance(deleted, int) else "none is left"
    removed = kit.work_numbers(files_removed=deleted)
    numbers: dict[str, Json] = {"orphans_after": found.files, "files_after": found.listed, **removed}
    return done(f"{how}; {found.listed} files belong to snapshots", numbers, changed=deleted != 0)


REMOVE_ORPHANS = kit.ActionDefinition(
    name=NAME, strategy=at_fixed_rate(timedelta(days=1), parallelism=4), settings=(OLDER_THAN, AT_LEAST, MOST_FILES),
    decide=decide, limits=limits, verify=verify, has_dry_run=True, commits=False,
)  # fmt: skip
