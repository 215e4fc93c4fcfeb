# SPDX-License-Identifier: Apache-2.0
"""What the table says about a process: a compaction by its commit user, others by what is left; and why one failed."""

from collections.abc import Mapping
from datetime import timedelta

from lakehand.formats.paimon import settings
from lakehand.formats.paimon.compact import SORTED, youngest_file
from lakehand.formats.paimon.layout import Document
from lakehand.formats.paimon.remove_orphans import TooMany, count_orphans
from lakehand.formats.paimon.settings import SortOrder
from lakehand.formats.paimon.snapshot import PaimonSnapshot
from lakehand.spi import Json, Verdict, kit
from lakehand.spi.kit.conversions import fields, items, moment_of, whole_number, whole_numbers
from lakehand.spi.kit.verdicts import done, not_done

READ_BACK = 50  # tags that a verdict reads
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


def verify_expire_partitions(effect: PaimonEffect) -> Verdict:
    snapshot, before = effect.snapshot, whole_number(effect.parameters.get(kit.BEFORE))
    announced = announced_partitions(effect.parameters)
    if commits := snapshot.tagged(str(effect.parameters.get(kit.TAG)), after=before):
        return dropping_verdict(effect, commits[0], announced)
    reported = whole_numbers(effect.result.get("snapshots"))
    if reported and max(reported) < snapshot.earliest:
        return done(f"snapshot {max(reported)} was its work, and has expired since: the oldest is {snapshot.earliest}")
    left = {file.partition for file in snapshot.files} & announced.keys()
    if not left:
        return done(f"nothing to do: none of {len(announced)} partitions has files", changed=False)
    return not_done(f"{len(left)} of {len(announced)} partitions are still there, {announced[min(left)]} first")


def dropping_verdict(effect: PaimonEffect, commit: Document, announced: Mapping[bytes, str]) -> Verdict:
    """The snapshot took away all files of exactly the announced partitions, and added none."""
    manifests, number = effect.snapshot.manifests, commit["id"]
    changes = manifests.changes(commit)
    dropped = {entry.file.partition for entry in changes}
    left = {file.partition for file in manifests.content(commit).files} & announced.keys()
    if left or dropped != announced.keys() or any(entry.is_added for entry in changes):
        return not_done(f"snapshot {number} touched {len(dropped)} partitions, and {len(announced)} were announced")
    rows = sum(entry.file.rows for entry in changes)
    numbers: dict[str, Json] = {
        "snapshots": [number],
        "dropped_partitions": len(dropped),
        "dropped_rows": rows,
        **kit.work_numbers(files_removed=len(changes)),
    }
    return done(
        f"snapshot {number}: {len(dropped)} partitions with {rows} rows in {len(changes)} files are dropped", numbers
    )


def announced_partitions(parameters: Mapping[str, Json]) -> dict[bytes, str]:
    """Names by key."""
    found = [fields(one) for one in items(parameters.get("partitions"))]
    return {bytes.fromhex(str(one.get("key"))): str(one.get("name")) for one in found}


def verify_expire_tags(effect: PaimonEffect) -> Verdict:
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
