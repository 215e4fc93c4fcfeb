# SPDX-License-Identifier: Apache-2.0
"""Deletes files of the log that lie before a checkpoint that is past the retention itself.

Delta deletes by the times of files alone. Here the commit at the checkpoint must be old as well, by its file and by
what it says of itself, so that the table as it was at any moment within the retention can still be read.
"""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise, takewhile
from typing import NamedTuple

from lakehand.formats.delta.checkpoint_files import why_unreadable
from lakehand.formats.delta.context import DeltaContext, DeltaEffect, is_older
from lakehand.formats.delta.log import committed_at
from lakehand.formats.delta.snapshot import RETENTION_FLOOR, DeltaSnapshot, version_before
from lakehand.spi import Action, Json, Skip, Verdict, amount, at_fixed_rate, kit
from lakehand.spi.kit import Need, duration_text
from lakehand.spi.kit.conversions import milliseconds, moment_of
from lakehand.spi.kit.verdicts import done, not_done
from lakehand.storage import Entry

CLEAN_UP = "delta.enableExpiredLogCleanup"
PROTECTION, PROTECTED = "checkpointProtection", "delta.requireCheckpointProtectionBeforeVersion"
RETAIN = kit.retention_setting(
    "delta.clean-log.retain",
    "keep the log at least this long; the table's `delta.logRetentionDuration` (30 days if not set) counts when it is "
    "longer",
    RETENTION_FLOOR, RETENTION_FLOOR,
)  # fmt: skip
MIN_FILES = kit.count_setting(
    "delta.clean-log.min-files", "so many files of the log must be past the retention", 100, floor=1
)
_VERSIONED = re.compile(r"(\d{20})\.(json|crc|checkpoint\..+)")


class LogFile(NamedTuple):
    version: int
    is_commit: bool
    entry: Entry


class ExpiredLog(NamedTuple):
    """What may go: everything before one version, which is then the oldest that can be read."""

    oldest: int
    files: Sequence[LogFile]

    def __str__(self) -> str:
        versions = sum(file.is_commit for file in self.files)
        size = amount(sum(file.entry.size for file in self.files))
        return f"{len(self.files)} files of the log with {size} ({versions} commits before version {self.oldest})"


def decide(context: DeltaContext) -> Need | Skip:
    """The longest retention counts: the floor's, the table's, our setting's, the request's."""
    snapshot = context.snapshot
    if snapshot.configuration.get(CLEAN_UP, "true").strip().lower() != "true":
        return Skip(reason=f"the table's property {CLEAN_UP} is not true: its log is kept")
    if gap := gap_in(snapshot):
        return Skip(reason=f"the log has no commit {gap}: nothing is deleted from a log with a gap")
    retention = max(context.values[RETAIN], snapshot.log_retention)
    cutoff = midnight(context.table.now - retention)
    expired = expired_log(snapshot, cutoff, held_version(context))
    age = f"older than {duration_text(retention)}"
    if expired is None or not expired.files:
        return Skip(reason=f"{describe_kept(snapshot)}, and no checkpoint {age} has anything before it")
    if why := why_protected(snapshot, expired.oldest):
        return Skip(reason=why)
    least = context.values[MIN_FILES]
    if not context.by_person and not context.was_tried and len(expired.files) < least:
        return Skip(reason=f"{expired} are {age}; {least} would be worth it")
    parameters = {"keep_from": expired.oldest, "older_than": milliseconds(cutoff), "expired": len(expired.files)}
    return Need(reason=f"{expired} are {age}", parameters=parameters)


def midnight(moment: datetime) -> datetime:
    """As Delta does: a log is not cleaned up all day long."""
    return moment.replace(hour=0, minute=0, second=0, microsecond=0)


def held_version(context: DeltaContext) -> int:
    """Unfinished operations look for their commits in the log since the version that they started from."""
    started = (version_before(o.process.parameters) for o in context.table.operations() if not o.status.is_final)
    return min((version for version in started if version >= 0), default=context.snapshot.version)


def gap_in(snapshot: DeltaSnapshot) -> int | None:
    """The first commit that is missing; one to come if only a checkpoint is left."""
    return next((a + 1 for a, b in pairwise(snapshot.log.versions) if b != a + 1), None)


def why_protected(snapshot: DeltaSnapshot, oldest: int) -> str | None:
    """The feature allows to delete what is before the protected version only all at once."""
    text = snapshot.configuration.get(PROTECTED, "0").strip()
    protected = int(text) if text.isdigit() else 0
    if PROTECTION not in snapshot.features or oldest >= protected:
        return None
    return (
        f"checkpoints before version {protected} are protected, and only those before {oldest} are past the retention"
    )


def expired_log(snapshot: DeltaSnapshot, cutoff: datetime, newest: int) -> ExpiredLog | None:
    """By the newest checkpoint, not after ``newest``, whose version and all files before it are old enough."""
    files = log_files(snapshot)
    commits = sorted(file for file in files if file.is_commit)
    old = {file.version for file in takewhile(lambda file: file.entry.modified < cutoff, commits)}
    for checkpoint in reversed(snapshot.log.checkpoints):
        version = checkpoint.version
        if version not in old or version > newest or not is_old(snapshot, version, cutoff):
            continue
        before = [file for file in files if file.version < version]
        if all(file.entry.modified < cutoff for file in before):
            return ExpiredLog(version, before)
    return None


def is_old(snapshot: DeltaSnapshot, version: int, cutoff: datetime) -> bool:
    """By the commit itself: a copied table has files of another time."""
    return committed_at(snapshot.log.commit(version)) < milliseconds(cutoff)


def log_files(snapshot: DeltaSnapshot) -> list[LogFile]:
    found = ((entry, _VERSIONED.fullmatch(entry.name)) for entry in snapshot.log.storage.entries(snapshot.log.folder))
    return [LogFile(int(match[1]), match[2] == "json", entry) for entry, match in found if match]


def describe_kept(snapshot: DeltaSnapshot) -> str:
    oldest = committed_at(snapshot.log.commit(snapshot.log.versions[0])) if snapshot.log.versions else 0
    since = f", the oldest of {moment_of(oldest):%Y-%m-%d}" if oldest else ""
    return f"the log has {len(snapshot.log.versions)} commits and {len(snapshot.log.checkpoints)} checkpoints{since}"


def verify(effect: DeltaEffect) -> Verdict:
    log, keep_from = effect.snapshot.log, effect.parameters.get("keep_from")
    if not isinstance(keep_from, int) or log.newest < keep_from:
        return is_older(effect)
    if left := [file for file in log_files(effect.snapshot) if file.version < keep_from]:
        return not_done(f"{len(left)} files of the log before version {keep_from} are still there")
    kept = next((one for one in log.checkpoints if one.version == log.oldest), None)
    if why := why_unreadable(log, kept) if kept else "":
        return not_done(why)
    return done(
        f"the oldest version that can be read is {log.oldest} now; {describe_deleted(effect)}",
        {"oldest": log.oldest, **kit.work_numbers(files_removed=deleted(effect))},
        changed=deleted(effect) != 0,
    )


def deleted(effect: DeltaEffect) -> Json:
    """What the job counted; if its result was lost, what was to be deleted is gone."""
    return effect.result.get("deleted_files", effect.parameters.get("expired"))


def describe_deleted(effect: DeltaEffect) -> str:
    return f"{deleted(effect)} files of the log before version {effect.parameters.get('keep_from')} were deleted"


CLEAN_LOG = kit.ActionDefinition(
    name=Action.register("clean-log"), strategy=at_fixed_rate(timedelta(hours=12)), settings=(RETAIN, MIN_FILES),
    decide=decide, verify=verify, has_dry_run=True, commits=False,
)  # fmt: skip
