# SPDX-License-Identifier: Apache-2.0
"""Whether a table is worth a checkpoint: readers must open every commit since the last one.

Writers make checkpoints themselves, so that ours are for tables whose writers do not, or seldom do.
"""

from lakehand.formats.delta import settings
from lakehand.formats.delta.log import Log
from lakehand.formats.delta.settings import DeltaContext
from lakehand.formats.delta.snapshot import DeltaSnapshot
from lakehand.spi import Skip
from lakehand.spi.kit import Need

HINT = "_last_checkpoint"
INTERVAL = "delta.checkpointInterval"
LEAST = 100  # commits: fewer are no trouble for a reader


def decide_checkpoint(context: DeltaContext) -> Need | Skip:
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
    return context.values.get(settings.CHECKPOINT_COMMITS) or max(LEAST, 2 * interval_of(context.snapshot))


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
