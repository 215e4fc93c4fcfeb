# SPDX-License-Identifier: Apache-2.0
"""What a table needs, by its numbers: each decision has a reason, can be switched off, and comes to rest."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from lakehand.formats.paimon import PaimonProcessFactory
from lakehand.formats.paimon.settings import COMPACT, MAX_AGE, OLDER_THAN, RETAIN_LAST
from lakehand.jobs.paimon.compact import bins
from lakehand.spi import Action, Drop, EngineState, EngineStatus, Failure, Invalid, Remedy, Status, TableProcess
from tests.formats.classifying import failure_of
from tests.formats.paimon.handmade import MB, NOON, File, HandMade, small
from tests.formats.paimon.runtime import harness, skipped, wanted

KEYED = {"bucket": "2", "write-only": "true"}


def test_small_files_are_packed_where_a_partition_has_enough(tmp_path: Path) -> None:
    made = HandMade(tmp_path / "t", partition_keys=["p"])
    made.commit([*small(6, prefix="a", partition=b"a"), *small(4, prefix="b", partition=b"b")])
    made.commit(small(3, prefix="big", partition=b"a", size=200 * MB))

    reason = wanted(harness(made.root), "compact")

    assert reason == ("10 of 13 files are under 179 MB, 1 of 2 partitions have 5 or more of them: 6.0 MB to rewrite")
    assert skipped(harness(made.root, compact__min_files="7"), "compact") == (
        "10 of 13 files are under 179 MB, 0 of 2 partitions have 7 or more of them"
    )


def test_runs_are_merged_where_a_bucket_has_as_many_as_its_table_bears(tmp_path: Path) -> None:
    made = HandMade(tmp_path / "t", primary_keys=["id"], options=KEYED)
    made.commit([*small(4), *small(1, prefix="bottom", level=5), *small(2, prefix="other", bucket=1)])

    assert wanted(harness(made.root), "compact") == (
        "1 of 2 buckets have 5 or more sorted runs (most: 5): 5.0 MB to merge"
    )
    assert skipped(harness(made.root, compact__sorted_runs="6"), "compact").startswith("0 of 2 buckets have 6")


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


def test_a_table_that_its_writers_compact_is_left_to_them(tmp_path: Path) -> None:
    made = HandMade(tmp_path / "t", primary_keys=["id"], options={"bucket": "2"})
    made.commit(small(9))

    assert "its writers compact, since the table is not write-only" in skipped(harness(made.root), "compact")
    assert "paimon.compact.beside-writer=true" in skipped(harness(made.root), "compact")
    wanted(harness(made.root, compact__beside_writer="true"), "compact")


def test_an_append_table_without_buckets_is_packed_until_a_writer_does_so_itself(tmp_path: Path) -> None:
    made = HandMade(tmp_path / "t", options={})
    made.commit(small(9))
    made.commit(kind="COMPACT", user="lakehand-7-2026_x")
    wanted(harness(made.root), "compact")

    made.commit(kind="COMPACT", user="flink")

    assert "a writer compacts: snapshot 3 is its work" in skipped(harness(made.root), "compact")


def test_deletion_vectors_and_changed_rows_keep_an_append_table_from_being_packed(tmp_path: Path) -> None:
    vectors = HandMade(tmp_path / "v", options={"write-only": "true", "deletion-vectors.enabled": "true"})
    changed = HandMade(tmp_path / "c")
    for made in (vectors, changed):
        made.commit(small(9))
    changed.commit(small(1, prefix="new"), deleted=small(1))

    assert "the table has deletion vectors" in skipped(harness(vectors.root), "compact")
    assert "snapshot 2 changed rows in place" in skipped(harness(changed.root), "compact")
    wanted(harness(changed.root, compact__beside_row_changes="true"), "compact")


def test_the_reason_explains_why_a_table_cannot_be_compacted(tmp_path: Path) -> None:
    crossing = HandMade(tmp_path / "x", primary_keys=["id"], partition_keys=["p"], options={})
    crossing.commit(small(9))
    keyed = HandMade(tmp_path / "k", primary_keys=["id"], options=KEYED)
    keyed.commit(small(9))

    assert "cannot compact such a table" in skipped(harness(crossing.root), "compact")
    assert "cannot be sorted" in skipped(harness(keyed.root, compact__strategy="sort"), "compact")


@pytest.mark.parametrize("action", ["compact", "expire-snapshots", "remove-orphans"])
def test_an_action_that_is_switched_off_is_not_run_for_anybody(tmp_path: Path, action: str) -> None:
    made = HandMade(tmp_path / "t", options={"write-only": "true"})
    made.commit(small(9))
    service = harness(made.root, **{f"{action.replace('-', '_')}__enabled": "false"})
    off = f"paimon.{action}.enabled is false (from table)"

    assert skipped(service, action) == off
    answer = service.factory.admit(service.runtime(), service.asked(action))
    assert answer == Failure(reason="refused", message=off, remedy=Remedy.FATAL)
    ours = service.stored(TableProcess(action=Action(action)))
    assert service.factory.admit(service.runtime(), ours) == Drop(reason=off)


@pytest.mark.parametrize("columns", ["", "nobody", "p", "v;DROP", "v,,id"])
def test_columns_that_cannot_be_sorted_by_are_refused(columns: str, tmp_path: Path) -> None:
    made = HandMade(tmp_path / "t", partition_keys=["p"])
    made.commit(small(9))

    service = harness(made.root, compact__strategy="sort", compact__order_columns=columns)
    why = "use names of columns" if columns == "v,,id" else "cannot sort by"
    assert why in skipped(service, "compact")
    answer = service.factory.admit(service.runtime(), service.asked("compact"))
    assert isinstance(answer, Failure)
    assert (answer.reason, why in answer.message) == ("refused", True)


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


def test_sorted_files_are_remembered_after_the_snapshot_of_the_sort_has_expired(tmp_path: Path) -> None:
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
    answer = service.factory.trigger(runtime, COMPACT)

    assert answer.reason.startswith("1 of 2 files (50% of the bytes) are not sorted by zorder(v,id)")


def test_what_is_no_longer_needed_is_dropped_and_what_a_person_asks_for_is_done(tmp_path: Path) -> None:
    made = HandMade(tmp_path / "t")
    made.commit(small(3))
    service = harness(made.root)

    ours = service.factory.admit(service.runtime(), service.stored(TableProcess(action=COMPACT)))
    theirs = service.factory.admit(service.runtime(), service.asked("compact", options={"strategy": "full"}))

    assert isinstance(ours, Drop)
    assert ours.reason.startswith("no longer needed: 3 of 3 files are under")
    assert isinstance(theirs, TableProcess)
    assert (theirs.parameters["strategy"], theirs.parameters["counts"]) == ("full", [3])


def test_a_person_may_confirm_a_compaction_beside_a_writer(tmp_path: Path) -> None:
    made = HandMade(tmp_path / "t", primary_keys=["id"], options={"bucket": "2"})
    made.commit(small(9))
    service = harness(made.root)

    refused = service.factory.admit(service.runtime(), service.asked("compact"))
    assert isinstance(refused, Failure)
    assert refused.message.endswith("lakehand operations submit 1 compact --confirm")
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


def test_expiry_counts_age_and_number(tmp_path: Path) -> None:
    made = history(tmp_path / "t")

    assert wanted(harness(made.root), "expire-snapshots") == (
        "15 of 40 snapshots are older than 1d and may go, the last 10 stay"
    )
    assert skipped(harness(made.root, expire_snapshots__retain_last="35"), "expire-snapshots") == (
        "5 of 40 snapshots are older than 1d and may go, the last 35 stay; worth it from 10"
    )
    assert skipped(harness(made.root, expire_snapshots__enabled="false"), "expire-snapshots").endswith("(from table)")


def test_the_owner_of_a_table_may_keep_more_with_paimons_own_options(tmp_path: Path) -> None:
    kept = history(tmp_path / "a", options={"snapshot.num-retained.min": "38"})
    aged = history(tmp_path / "b", options={"snapshot.time-retained": "38 h"})

    assert "the last 38 stay" in skipped(harness(kept.root), "expire-snapshots")
    assert skipped(harness(aged.root), "expire-snapshots").startswith("1 of 40 snapshots are older than 38h")


def test_a_branch_from_an_unknown_snapshot_keeps_the_whole_main_line(tmp_path: Path) -> None:
    made = history(tmp_path / "t")
    other = history(tmp_path / "other")
    branch = made.root / "branch" / "branch-b" / "snapshot"
    branch.mkdir(parents=True)
    (branch / "snapshot-9").write_text(
        (other.root / "snapshot" / "snapshot-9").read_text().replace("manifest-list", "strange-list")
    )

    assert "branch b needs snapshot 1" in skipped(harness(made.root), "expire-snapshots")


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


def test_a_run_that_changed_nothing_is_not_repeated_for_a_while(tmp_path: Path) -> None:
    made = HandMade(tmp_path / "t")
    made.commit(small(9))
    service = harness(made.root)
    admitted = service.admitted(service.stored(TableProcess(action=COMPACT, job="paimon.compact")))
    verdict = service.verdict(admitted, {"snapshots": []})
    service.remember(replace(admitted, status=Status.SUCCEEDED, result=verdict.numbers, finished_at=NOON))

    assert skipped(service, "compact") == "operation 1 found nothing to change; next in 6 h"


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
