# SPDX-License-Identifier: Apache-2.0
"""What a table needs, by its numbers: each decision has a reason, can be switched off, and comes to rest."""

import json
import os
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from lakehand.formats.paimon import PaimonProcessFactory
from lakehand.formats.paimon.compact import COMPACT
from lakehand.formats.paimon.expire_snapshots import MAX_AGE, RETAIN_LAST
from lakehand.formats.paimon.remove_orphans import OLDER_THAN
from lakehand.jobs.paimon.compact import bins
from lakehand.spi import Action, Drop, EngineState, EngineStatus, Failure, Invalid, Remedy, Status, TableProcess
from tests.formats.classifying import failure_of
from tests.formats.paimon.handmade import MB, NOON, File, HandMade, small
from tests.formats.paimon.runtime import harness, skipped, wanted
from tests.kit.sentences import Sentences

KEYED = {"bucket": "2", "write-only": "true"}


def test_small_files_are_packed_where_a_partition_has_enough(tmp_path: Path, sentences: Sentences) -> None:
    made = HandMade(tmp_path / "t", partition_keys=["p"])
    made.commit([*small(6, prefix="a", partition=b"a"), *small(4, prefix="b", partition=b"b")])
    made.commit(small(3, prefix="big", partition=b"a", size=200 * MB))

    reason = wanted(harness(made.root), "compact")

    found = {"small": 10, "files": 13, "under": "179 MB"}
    sentences.check("small files", reason, **found, partitions=1, all=2, needed=5, size="6.0 MB")
    waiting = skipped(harness(made.root, compact__min_files="7"), "compact")
    sentences.check("few small files in each partition", waiting, **found, partitions=0, all=2, needed=7)


def test_runs_are_merged_where_a_bucket_has_as_many_as_its_table_bears(tmp_path: Path, sentences: Sentences) -> None:
    made = HandMade(tmp_path / "t", primary_keys=["id"], options=KEYED)
    made.commit([*small(4), *small(1, prefix="bottom", level=5), *small(2, prefix="other", bucket=1)])

    found = {"buckets": 1, "all": 2, "needed": 5, "most": 5, "size": "5.0 MB"}
    sentences.check("many sorted runs", wanted(harness(made.root), "compact"), **found)
    few = skipped(harness(made.root, compact__sorted_runs="6"), "compact")
    sentences.check("few sorted runs", few, buckets=0, all=2, needed=6, most=5)


@pytest.mark.parametrize(
    ("bottom", "runs", "limit", "strategy"),
    [
        (900 * MB, 8, {}, "minor"),
        (10 * MB, 8, {}, "full"),  # most bytes are above the bottom
        (900 * MB, 4, {}, "full"),  # a minor one would find nothing to pick
        (900 * MB, 8, {"compact__driver_bytes": "1000"}, "full"),  # too much for the driver
    ],
)
def test_the_cheaper_merge_is_chosen(
    bottom: int, runs: int, limit: dict[str, str], strategy: str, tmp_path: Path
) -> None:
    made = HandMade(tmp_path / "t", primary_keys=["id"], options=KEYED)
    made.commit([File("bottom.parquet", size=bottom, level=5), *small(runs)])

    answer = harness(made.root, **limit).wants("compact")

    assert isinstance(answer, TableProcess)
    assert answer.parameters["strategy"] == strategy


def test_a_table_that_its_writers_compact_is_left_to_them(tmp_path: Path, sentences: Sentences) -> None:
    made = HandMade(tmp_path / "t", primary_keys=["id"], options={"bucket": "2"})
    made.commit(small(9))

    reason = skipped(harness(made.root), "compact")
    sentences.check("its writers compact", reason, setting="paimon.compact.beside-writer=true")
    wanted(harness(made.root, compact__beside_writer="true"), "compact")


def test_an_append_table_without_buckets_is_packed_until_a_writer_does_so_itself(
    tmp_path: Path, sentences: Sentences
) -> None:
    made = HandMade(tmp_path / "t", options={})
    made.commit(small(9))
    made.commit(kind="COMPACT", user="lakehand-7-2026_x")
    wanted(harness(made.root), "compact")

    made.commit(kind="COMPACT", user="flink")

    sentences.check("a writer has compacted", skipped(harness(made.root), "compact"), snapshot=3)


def test_deletion_vectors_and_changed_rows_keep_an_append_table_from_being_packed(
    tmp_path: Path, sentences: Sentences
) -> None:
    vectors = HandMade(tmp_path / "v", options={"write-only": "true", "deletion-vectors.enabled": "true"})
    changed = HandMade(tmp_path / "c")
    for made in (vectors, changed):
        made.commit(small(9))
    changed.commit(small(1, prefix="new"), deleted=small(1))

    sentences.check("deletion vectors", skipped(harness(vectors.root), "compact"))
    sentences.check("rows were changed in place", skipped(harness(changed.root), "compact"), snapshot=2)
    wanted(harness(changed.root, compact__beside_row_changes="true"), "compact")


def test_the_reason_explains_why_a_table_cannot_be_compacted(tmp_path: Path, sentences: Sentences) -> None:
    crossing = HandMade(tmp_path / "x", primary_keys=["id"], partition_keys=["p"], options={})
    crossing.commit(small(9))
    keyed = HandMade(tmp_path / "k", primary_keys=["id"], options=KEYED)
    keyed.commit(small(9))

    sentences.check("keys across partitions", skipped(harness(crossing.root), "compact"))
    sentences.check("a key keeps its own order", skipped(harness(keyed.root, compact__strategy="sort"), "compact"))


@pytest.mark.parametrize("action", ["compact", "expire-snapshots", "remove-orphans"])
def test_an_action_that_is_switched_off_is_not_run_for_anybody(
    tmp_path: Path, action: str, sentences: Sentences
) -> None:
    made = HandMade(tmp_path / "t", options={"write-only": "true"})
    made.commit(small(9))
    service = harness(made.root, **{f"{action.replace('-', '_')}__enabled": "false"})
    off = skipped(service, action)
    sentences.check("the action is off", off, key=f"paimon.{action}.enabled", source="table")
    answer = service.factory.admit(service.runtime(), service.asked(action))
    assert answer == Failure(reason="refused", message=off, remedy=Remedy.FATAL)
    ours = service.stored(TableProcess(action=Action(action)))
    assert service.factory.admit(service.runtime(), ours) == Drop(reason=off)


@pytest.mark.parametrize(
    ("columns", "case"),
    [
        ("", "no columns to sort by"),
        ("nobody", "no such column to sort by"),
        ("p", "no such column to sort by"),
        ("v;DROP", "no columns to sort by"),
        ("v,,id", "no names of columns"),
    ],
)
def test_columns_that_cannot_be_sorted_by_are_refused(
    columns: str, case: str, tmp_path: Path, sentences: Sentences
) -> None:
    made = HandMade(tmp_path / "t", partition_keys=["p"])
    made.commit(small(9))

    service = harness(made.root, compact__strategy="sort", compact__order_columns=columns)
    reason = skipped(service, "compact")
    sentences.check(case, reason, columns=f"'{columns}'")
    answer = service.factory.admit(service.runtime(), service.asked("compact"))
    assert isinstance(answer, Failure)
    assert (answer.reason, answer.message) == ("refused", reason)


def test_what_a_compaction_removed_and_rewrote_is_in_its_verdict(tmp_path: Path) -> None:
    made = HandMade(tmp_path / "t")
    files = small(6)
    made.commit(files)
    service = harness(made.root)
    admitted = service.admitted(service.asked("compact"))
    user = f"lakehand-{admitted.tag}_{admitted.process.parameters['sign']}"
    made.commit([File("merged.parquet")], files, kind="COMPACT", user=user)

    numbers = service.verdict(admitted, {}).numbers

    assert numbers["files_removed"] == numbers["removed_files"] == 6
    assert numbers["bytes_rewritten"] == numbers["rewritten_bytes"] == sum(file.size for file in files)


def test_sorted_files_are_remembered_after_the_snapshot_of_the_sort_has_expired(
    tmp_path: Path, sentences: Sentences
) -> None:
    made = HandMade(tmp_path / "t")
    made.commit(small(6))
    settings = {"compact__strategy": "sort", "compact__order_columns": "v,id"}
    service = harness(made.root, **settings)
    admitted = service.admitted(service.asked("compact"))
    user = f"lakehand-{admitted.tag}_{admitted.process.parameters['sign']}"
    made.commit([File("sorted.parquet", created=NOON + timedelta(hours=1))], small(6), kind="COMPACT", user=user)
    runtime = service.runtime()
    assert service.factory.verify(runtime, admitted.process, {}).finding == "done"
    for number in (1, 2):
        made.copy(number, f"gone/{number}")
        (made.root / "snapshot" / f"snapshot-{number}").unlink()
    made.commit(small(1, prefix="new", created=NOON + timedelta(hours=2)))

    runtime._snapshot, runtime._operations = None, []
    answer = service.factory.trigger(runtime, COMPACT.name)

    found = {"unsorted": 1, "files": 2, "share": "50%", "order": "zorder(v,id)"}
    sentences.check("files are not sorted", answer.reason, **found)


def test_what_is_no_longer_needed_is_dropped_and_what_a_person_asks_for_is_done(
    tmp_path: Path, sentences: Sentences
) -> None:
    made = HandMade(tmp_path / "t")
    made.commit(small(3))
    service = harness(made.root)

    ours = service.factory.admit(service.runtime(), service.stored(TableProcess(action=COMPACT.name)))
    theirs = service.factory.admit(service.runtime(), service.asked("compact", options={"strategy": "full"}))

    assert isinstance(ours, Drop)
    sentences.check("no longer needed", ours.reason, small=3, files=3)
    assert isinstance(theirs, TableProcess)
    assert (theirs.parameters["strategy"], theirs.parameters["counts"]) == ("full", [3])


def test_a_person_may_confirm_a_compaction_beside_a_writer(tmp_path: Path, sentences: Sentences) -> None:
    made = HandMade(tmp_path / "t", primary_keys=["id"], options={"bucket": "2"})
    made.commit(small(9))
    service = harness(made.root)

    refused = service.factory.admit(service.runtime(), service.asked("compact"))
    assert isinstance(refused, Failure)
    command = "lakehand operations submit 1 compact --confirm"
    sentences.check("a person must confirm it beside a writer", refused.message, command=command)
    assert isinstance(service.factory.admit(service.runtime(), service.asked("compact", confirm=True)), TableProcess)


@pytest.mark.parametrize(
    ("action", "options"),
    [
        ("compact", {"target-file-size": "1 b"}),
        ("compact", {"strategy": "everything"}),
        ("compact", {"strategy": "sort", "order-columns": "nobody"}),
        ("expire-snapshots", {"older_than": "now"}),
        ("remove-orphans", {"spark.sql.extensions": "Evil"}),
    ],
)
def test_a_request_for_something_forbidden_is_refused(action: str, options: dict[str, str], tmp_path: Path) -> None:
    made = HandMade(tmp_path / "t")
    made.commit(small(9))
    service = harness(made.root)

    answer = service.factory.admit(service.runtime(), service.asked(action, options=options))

    assert isinstance(answer, Failure)
    assert answer.remedy is Remedy.FATAL


def history(root: Path, count: int = 40, options: dict[str, str] | None = None) -> HandMade:
    """A snapshot every hour, the last one now."""
    made = HandMade(root, options=options or {})
    for number in range(count):
        made.commit(small(1, prefix=f"f{number}"), at=NOON - timedelta(hours=count - 1 - number))
    return made


def test_expiry_counts_age_and_number(tmp_path: Path, sentences: Sentences) -> None:
    made = history(tmp_path / "t")

    reason = wanted(harness(made.root), "expire-snapshots")
    sentences.check("snapshots are old", reason, old=15, snapshots=40, age="1d", kept=10)
    few = skipped(harness(made.root, expire_snapshots__retain_last="35"), "expire-snapshots")
    sentences.check("few snapshots are old", few, old=5, snapshots=40, age="1d", kept=35, needed=10)


def test_the_owner_of_a_table_may_keep_more_with_paimons_own_options(tmp_path: Path, sentences: Sentences) -> None:
    kept = history(tmp_path / "a", options={"snapshot.num-retained.min": "38"})
    aged = history(tmp_path / "b", options={"snapshot.time-retained": "38 h"})

    by_number, by_age = (skipped(harness(made.root), "expire-snapshots") for made in (kept, aged))
    sentences.check("few snapshots are old", by_number, old=2, snapshots=40, age="1d", kept=38, needed=10)
    sentences.check("few snapshots are old", by_age, old=1, snapshots=40, age="38h", kept=10, needed=10)


def test_a_branch_from_an_unknown_snapshot_keeps_the_whole_main_line(tmp_path: Path, sentences: Sentences) -> None:
    made = history(tmp_path / "t")
    other = history(tmp_path / "other")
    branch = made.root / "branch" / "branch-b" / "snapshot"
    branch.mkdir(parents=True)
    (branch / "snapshot-9").write_text(
        (other.root / "snapshot" / "snapshot-9").read_text().replace("manifest-list", "strange-list")
    )

    reason = skipped(harness(made.root), "expire-snapshots")
    sentences.check("a branch needs a snapshot", reason, old=0, branch="branch b", snapshot=1)


def test_floors_are_raised_by_the_plugin_and_lowered_by_nobody() -> None:
    low, high = PaimonProcessFactory(), PaimonProcessFactory()
    low.open(
        {"paimon.expire-snapshots.max-age-floor": "1s", "paimon.expire-snapshots.retain-last-floor": "0",
         "paimon.remove-orphans.older-than-floor": "0s"}
    )  # fmt: skip
    high.open({"paimon.remove-orphans.older-than-floor": "10d", "paimon.expire-snapshots.max-age-floor": "1d"})

    rows = (MAX_AGE, RETAIN_LAST, OLDER_THAN)
    assert [low.settings.floor(row) for row in rows] == [timedelta(hours=1), 1, timedelta(days=3)]
    assert [high.settings.floor(row) for row in rows] == [timedelta(days=1), 1, timedelta(days=10)]
    with pytest.raises(Invalid):
        low.open({"paimon.remove-orphans.older-than-floor": "never"})


def test_a_run_that_changed_nothing_is_not_repeated_for_a_while(tmp_path: Path, sentences: Sentences) -> None:
    made = HandMade(tmp_path / "t")
    made.commit(small(9))
    service = harness(made.root)
    admitted = service.admitted(service.stored(TableProcess(action=COMPACT.name, job="paimon.compact")))
    verdict = service.verdict(admitted, {"snapshots": []})
    service.remember(replace(admitted, status=Status.SUCCEEDED, result=verdict.numbers, finished_at=NOON))

    sentences.check("the last run changed nothing", skipped(service, "compact"), operation=1, next="6 h")


@pytest.mark.parametrize(
    ("message", "reason", "remedy"),
    [
        ("File deletion conflicts detected! Give up committing.", "write-conflict", Remedy.RETRY),
        ("LSM conflicts detected! Give up committing.", "write-conflict", Remedy.RETRY),
        ("Trying to delete file x which is not previously added.", "write-conflict", Remedy.RETRY),
        ("... Cannot clean up because we can't determine the success.", "commit-unknown", Remedy.RETRY),
        ("Schema file not found in location /x. Please create table first.", "table-missing", Remedy.FATAL),
        ("connection refused", "Error", Remedy.RETRY),
    ],
)
def test_failures_are_distinguished(message: str, reason: str, remedy: Remedy) -> None:
    status = EngineStatus(state=EngineState.FAILED, error_class="some.Error", message=message)
    failure = failure_of(PaimonProcessFactory(), "compact", status)

    assert (failure.reason, failure.remedy) == (reason, remedy)
    assert failure.message.startswith(message)


@pytest.mark.parametrize(
    ("counts", "least", "expected"),
    [
        ([], 5, []),
        ([4], 5, []),
        ([104], 5, [104]),
        ([100, 100, 60], 5, [60, 41]),
        ([1000, 3, 2], 2, [1000, 2, 2]),
    ],
)
def test_rounds_shrink_until_no_partition_has_enough_small_files(
    counts: list[int], least: int, expected: list[int]
) -> None:
    assert list(bins(counts, least)) == expected


def test_the_changelog_of_a_compaction_reads_nothing_and_stops_no_removal_of_orphans(tmp_path: Path) -> None:
    """Paimon deletes its lists with its snapshot, and keeps those of all other changelogs."""
    made = HandMade(tmp_path / "t")
    for number in range(3):
        made.commit(small(1, prefix=f"d{number}"), at=NOON - timedelta(days=9))
    for number in (1, 2):
        made.copy(number, f"changelog/changelog-{number}")
        (made.root / "snapshot" / f"snapshot-{number}").unlink()
    document = json.loads((made.root / "changelog" / "changelog-2").read_text())
    for key in ("baseManifestList", "deltaManifestList"):
        (made.root / "manifest" / document[key]).unlink()
    for file in made.root.rglob("manifest*"):
        os.utime(file, ((NOON - timedelta(days=9)).timestamp(),) * 2)

    assert skipped(harness(made.root), "remove-orphans").startswith("0 of ")
