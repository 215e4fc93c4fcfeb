# SPDX-License-Identifier: Apache-2.0
"""Makes a checkpoint: readers must open every commit since the last one.

Writers make checkpoints themselves, so that ours are for tables whose writers do not, or seldom do.
"""

from lakehand.formats.delta.checkpoint_files import why_unreadable
from lakehand.formats.delta.context import DeltaContext, DeltaEffect, is_older
from lakehand.formats.delta.log import Log
from lakehand.formats.delta.rewrites import ON_COMMIT
from lakehand.formats.delta.snapshot import DeltaSnapshot, version_before
from lakehand.spi import Action, Skip, Verdict, kit
from lakehand.spi.kit import Need
from lakehand.spi.kit.verdicts import done, not_done

HINT = "_last_checkpoint"
INTERVAL = "delta.checkpointInterval"
LEAST = 100  # commits: fewer are no trouble for a reader
COMMITS = kit.count_setting(
    "delta.checkpoint.commits", "so many commits since the last checkpoint make one worth it", floor=2,
    default_text="twice the table's `delta.checkpointInterval`, at least 100",
)  # fmt: skip


def decide(context: DeltaContext) -> Need | Skip:
    log, least = context.snapshot.log, worth_it(context)
    since = len(log.tail)
    text = describe(log, since)
    is_hinted = hinted_version(log) is not None
    if not since and is_hinted:
        return Skip(reason=text)
    listed = len(log.versions) if log.start and not is_hinted else since
    if listed > since:
        text += f"; {HINT} names no checkpoint that is there, so that a reader lists {listed} commits"
    if not context.by_person and not context.was_tried and listed < least:
        return Skip(reason=f"{text}; {least} would be worth it")
    return Need(reason=text)


def worth_it(context: DeltaContext) -> int:
    return context.values.get(COMMITS) or max(LEAST, 2 * interval_of(context.snapshot))


def interval_of(snapshot: DeltaSnapshot) -> int:
    """How often writers make checkpoints; 0: the table does not say."""
    text = snapshot.configuration.get(INTERVAL, "").strip()
    return int(text) if text.isdigit() else 0


def describe(log: Log, since: int) -> str:
    if log.start is None:
        return f"{since} commits and no checkpoint: a reader opens {since} files"
    if not since:
        return f"the newest version, {log.newest}, has a checkpoint"
    return f"{since} commits since the checkpoint of version {log.start.version}: a reader opens {since} files"


def hinted_version(log: Log) -> int | None:
    """The checkpoint that readers are told to begin with; None if they are not, or if it is not there."""
    version = log.document(HINT).get("version")
    return next((one.version for one in log.checkpoints if one.version == version), None)


def verify(effect: DeltaEffect) -> Verdict:
    """A checkpoint of the version that the first attempt found, or of a later one, is enough: a writer's, too."""
    log, before = effect.snapshot.log, version_before(effect.parameters)
    if log.newest < before:
        return is_older(effect)
    if log.start is None or log.start.version < before:
        return not_done(f"there is no checkpoint of version {before} or later")
    hinted = hinted_version(log)
    if hinted is None or hinted < before:
        return not_done(f"version {log.start.version} has a checkpoint, and {HINT} does not lead to it")
    if why := why_unreadable(log, log.start):
        return not_done(why)
    reason = f"version {log.start.version} has a checkpoint that can be read; {len(log.tail)} commits came after it"
    return done(reason, {"version": log.start.version, "before": effect.parameters.get("before")})


CHECKPOINT = kit.ActionDefinition(
    name=Action.register("checkpoint"), strategy=ON_COMMIT, settings=(COMMITS,), decide=decide, verify=verify,
    commits=False,
)  # fmt: skip
