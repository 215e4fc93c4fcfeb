# SPDX-License-Identifier: Apache-2.0
"""What the log's folder says about a checkpoint or a clean-up: no commit is made, so that the files are the proof."""

from lakehand.formats.delta import checkpoint_files
from lakehand.formats.delta.checkpoint import HINT, hinted_version
from lakehand.formats.delta.clean_log import log_files
from lakehand.formats.delta.files import LogState
from lakehand.formats.delta.log import Checkpoint, Log
from lakehand.formats.delta.snapshot import version_before
from lakehand.formats.delta.verdicts import DeltaEffect, is_older
from lakehand.spi import Json, Verdict, kit
from lakehand.spi.kit.verdicts import done, not_done


def verify_checkpoint(effect: DeltaEffect) -> Verdict:
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


def verify_clean_log(effect: DeltaEffect) -> Verdict:
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


def why_unreadable(log: Log, checkpoint: Checkpoint) -> str:
    """Why nobody can read a checkpoint; empty if all of it was read."""
    state = LogState()
    try:
        checkpoint_files.load(state, log, checkpoint)
    except OSError as error:
        return f"the checkpoint of version {checkpoint.version} cannot be read: {error}"
    if not state.protocol or not state.metadata:
        return f"the checkpoint of version {checkpoint.version} has no protocol or schema"
    return ""
