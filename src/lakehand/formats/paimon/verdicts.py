# SPDX-License-Identifier: Apache-2.0
"""What the table says about a process: a compaction by its commit user, others by what is left; and why one failed."""

from datetime import timedelta

from lakehand.formats.paimon import settings
from lakehand.formats.paimon.compaction import SORTED, youngest_file
from lakehand.formats.paimon.layout import Document
from lakehand.formats.paimon.orphans import TooMany, count_orphans
from lakehand.formats.paimon.settings import SortOrder
from lakehand.formats.paimon.snapshot import PaimonSnapshot
from lakehand.spi import Json, Verdict, kit
from lakehand.spi.kit.conversions import items, moment_of, whole_number, whole_numbers
from lakehand.spi.kit.verdicts import done, not_done

PaimonEffect = kit.Effect[PaimonSnapshot]
RULES = (
    kit.rule(r"MetadataUnreadable", "metadata-unreadable", delay=timedelta(minutes=10), advice="nothing was deleted"),
    kit.rule(
        r"conflicts detected|which is not previously added|Conflict files are", "write-conflict",
        delay=timedelta(minutes=2), advice="a writer was first; the next attempt plans anew",
    ),
    kit.rule(
        r"can't determine the success", "commit-unknown", delay=timedelta(minutes=1),
        advice="the table is asked for the commit before anything is tried again",
    ),
    kit.table_missing(
        r"Schema file not found|TableNotExistException|NoSuchTableException|Couldn't load table|DatabaseNotExist",
        "Paimon",
    ),
)  # fmt: skip


def verify_compact(effect: PaimonEffect) -> Verdict:
    snapshot, parameters, result = effect.snapshot, effect.parameters, effect.result
    before = whole_number(parameters.get(kit.BEFORE))
    if commits := snapshot.tagged(str(parameters.get(kit.TAG)), after=before):
        remember_order(effect, commits[0])
        return compaction_verdict(effect, commits)
    reported = whole_numbers(result.get("snapshots"))
    if reported and max(reported) < snapshot.earliest:
        oldest = f"the oldest is {snapshot.earliest}"
        return done(f"snapshot {max(reported)} was its work, and has expired since: {oldest}")
    if "snapshots" in result and not reported:
        return done("nothing to do: Paimon found nothing to compact", changed=False)
    return not_done(f"no snapshot after {parameters.get(kit.BEFORE)} is the work of this operation")


def compaction_verdict(effect: PaimonEffect, commits: list[Document]) -> Verdict:
    snapshot, files_before = effect.snapshot, whole_number(effect.parameters.get("files_before"))
    changes = [entry for document in commits for entry in snapshot.manifests.changes(document)]
    removed = [entry.file.size for entry in changes if not entry.is_added]
    added = [entry.file.size for entry in changes if entry.is_added]
    ids = [document["id"] for document in reversed(commits)]
    numbers: dict[str, Json] = {
        "snapshots": ids,
        "files_before": files_before,
        "files_after": len(snapshot.files),
        "removed_files": len(removed),
        "added_files": len(added),
        "rewritten_bytes": sum(removed),
        "added_bytes": sum(added),
        **kit.work_numbers(files_removed=len(removed), bytes_rewritten=sum(removed)),
    }
    became = f"{len(removed)} files became {len(added)}; {files_before} before, {len(snapshot.files)} now"
    return done(f"snapshot {', '.join(map(str, ids))}: {became}", numbers)


def remember_order(effect: PaimonEffect, document: Document) -> None:
    """For the time when the snapshot of the sort has expired."""
    parameters = effect.parameters
    if parameters.get("strategy") != settings.SORT or not parameters.get("order_columns"):
        return
    columns = tuple(str(one) for one in items(parameters["order_columns"]))
    order = SortOrder(strategy=str(parameters["order_strategy"]), columns=columns)
    until = youngest_file(effect.snapshot, document["id"])
    effect.table.update_state(SORTED, lambda _: {str(order): until})


def verify_expire(effect: PaimonEffect) -> Verdict:
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


def verify_orphans(effect: PaimonEffect) -> Verdict:
    older_than = moment_of(whole_number(effect.parameters.get("older_than")))
    deleted = effect.result.get("deleted_files")
    try:
        limit = kit.FormatSettings(settings.MOST_FILES).of(effect.table.config)[settings.MOST_FILES]
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
