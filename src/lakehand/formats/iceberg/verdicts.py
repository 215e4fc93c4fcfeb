# SPDX-License-Identifier: Apache-2.0
"""What the metadata says about a process: our tag in a snapshot, or snapshots that are gone; and why one failed."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

from lakehand.formats.iceberg.commits import SnapshotCommit
from lakehand.formats.iceberg.snapshot import (
    REWRITE_DATA,
    REWRITE_MANIFESTS,
    REWRITE_POSITION_DELETES,
    IcebergSnapshot,
    whole_number,
)
from lakehand.spi import Json, Remedy, Verdict, kit
from lakehand.spi.kit.conversions import fields, whole_numbers
from lakehand.spi.kit.verdicts import done, left_outside, not_done

COUNTED = {
    "added_files": "added-data-files",
    "removed_files": "deleted-data-files",
    "added_delete_files": "added-delete-files",
    "removed_delete_files": "removed-delete-files",
    "added_manifests": "manifests-created",
    "removed_manifests": "manifests-replaced",
}
KINDS = {REWRITE_MANIFESTS: ("manifests", "manifests"), REWRITE_POSITION_DELETES: ("delete files", "delete_files")}
IcebergEffect = kit.Effect[IcebergSnapshot]

FIRST_WAIT = timedelta(minutes=1)  # after a conflict; doubled with each, so that writers get through
LONGEST_WAIT = timedelta(minutes=30)
RULES = (
    kit.rule(
        r"CommitStateUnknown", "commit-unknown", Remedy.NOT_YET, delay=timedelta(minutes=2),
        advice="the catalog did not say whether it committed: the table is asked again before anything is done",
    ),
    kit.rule(
        r"Cannot commit rewrite because of|ValidationException|CommitFailedException|CommitConflict",
        "write-conflict", delay=FIRST_WAIT, longest_delay=LONGEST_WAIT,
        advice="a writer was faster: the next attempt plans anew",
    ),
    kit.table_missing(r"NoSuchTableException|NoSuchNamespaceException|Table does not exist", "Iceberg"),
    kit.class_missing(r"UnsupportedFileSystem|No FileSystem for scheme|Cannot initialize (Catalog|FileIO)"),
    kit.rule(r"(?<!Class)NotFoundException", "file-missing"),
)  # fmt: skip


def verify_rewrite(effect: IcebergEffect) -> Verdict:
    """The tag decides. A job that found nothing to do is believed, since then there is nothing to find."""
    tag = str(effect.parameters.get(kit.TAG) or "")
    if commits := effect.snapshot.tagged(tag) if tag else []:
        numbers = rewrite_numbers(effect, commits)
        return done(describe_rewrite(effect, numbers, commits), numbers)
    if effect.result.get("rewritten") == 0:
        reason = f"nothing to do: Iceberg found nothing for {effect.process.action}"
        return done(reason, {"after": effect.snapshot.totals()}, changed=False)
    if found := [one for one in whole_numbers(effect.result.get("snapshots")) if effect.snapshot.is_built_on(one)]:
        named = ", ".join(map(str, found))
        reason = f"the table is built on snapshot {named} of this operation, which the catalog no longer lists"
        return done(reason, {**totals(effect), "committed": found})
    return not_done(f"no snapshot carries the tag {tag}: nothing was committed")


def totals(effect: IcebergEffect) -> dict[str, Json]:
    return {"before": effect.parameters.get("seen") or {}, "after": effect.snapshot.totals()}


def rewrite_numbers(effect: IcebergEffect, commits: Sequence[SnapshotCommit]) -> dict[str, Json]:
    counted = {key: sum(whole_number(c.summary, name, 0) for c in commits) for key, name in COUNTED.items()}
    return {
        **totals(effect),
        "committed": [commit.id for commit in commits],
        **{key: count for key, count in counted.items() if count},
        **kit.work_numbers(
            files_removed=counted["removed_files"] + counted["removed_delete_files"],
            bytes_rewritten=sum(whole_number(c.summary, "removed-files-size", 0) for c in commits),
        ),
    }


def describe_rewrite(effect: IcebergEffect, numbers: Mapping[str, Json], commits: Sequence[SnapshotCommit]) -> str:
    kind, key = KINDS.get(effect.process.action, ("data files", "files"))
    became = f"{numbers.get(f'removed_{key}', 0)} {kind} became {numbers.get(f'added_{key}', 0)}"
    left, there = (int(str(fields(numbers[when]).get("delete_files", 0))) for when in ("after", "before"))
    deletes = f", {there} delete files became {left}" if effect.process.action == REWRITE_DATA and there else ""
    return f"{became}{deletes} in snapshot {', '.join(str(commit.id) for commit in commits)}"


def verify_expiry(effect: IcebergEffect) -> Verdict:
    snapshot, result = effect.snapshot, effect.result
    expected, kept = whole_numbers(effect.parameters.get("expire")), whole_numbers(result.get("kept"))
    heads = {ref.snapshot for ref in snapshot.refs.values()}
    left = [one for one in expected if one in snapshot.commits]
    if stuck := [one for one in left if one not in heads and one not in kept]:
        return not_done(f"{len(stuck)} of {len(expected)} snapshots are still there")
    gone = len(expected) - len(left)
    deleted = {key: result[key] for key in ("deleted_files", "left_outside") if key in result}
    numbers = {"expired": gone, **totals(effect), **deleted, **removed_files(effect)}
    if not expected:
        return done("nothing to do: no snapshot may go", numbers, changed=False)
    held = f"; {len(left)} got a branch or tag meanwhile" if left else ""
    reason = f"{gone} snapshots were expired, {len(snapshot.commits)} are left{held}{left_outside(result)}"
    return done(reason, numbers, changed=gone > 0)


def verify_orphans(effect: IcebergEffect) -> Verdict:
    """Metadata knows nothing of orphans: the job's result counts, if the table can still be read in full."""
    deleted = effect.result.get("deleted_files")
    if not isinstance(deleted, int):
        return not_done("the removal did not come to its end; the next takes the rest")
    reason = f"{deleted} orphans were deleted; the table's {len(effect.snapshot.files)} files are listed as before"
    return done(reason, {**totals(effect), **removed_files(effect)}, changed=deleted > 0)


def removed_files(effect: IcebergEffect) -> dict[str, Json]:
    return kit.work_numbers(files_removed=effect.result.get("deleted_files"))
