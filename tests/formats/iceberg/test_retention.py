# SPDX-License-Identifier: Apache-2.0
"""Which snapshots may go, and who holds on to the others."""

from datetime import timedelta
from typing import Any

import pytest

from lakehand.formats.iceberg.expire_snapshots import SnapshotRetention, expirable
from tests.formats.iceberg.made import ago, branch, commit, line, snapshot, tag

DAY = timedelta(days=1) // timedelta(milliseconds=1)
KEPT = SnapshotRetention(now=ago(), max_age=5 * DAY, min_snapshots=1, flink_age=30 * DAY)
LINE = line(20, 15, 10, 8, 4, 1)


def gone(kept: SnapshotRetention = KEPT, **parts: Any) -> list[int]:
    return [commit.id for commit in expirable(snapshot(**{"commits": LINE, **parts}), kept)]


def test_what_is_older_than_the_age_goes() -> None:
    assert gone() == [1, 2, 3, 4]


def test_the_last_one_stays_however_old_it_is() -> None:
    assert gone(commits=line(90, 80)) == [1]
    assert gone(KEPT._replace(min_snapshots=2), commits=line(90, 80, 70)) == [1]


def test_tags_and_branches_stay() -> None:
    refs = {"main": branch(6), "kept": tag(2), "side": branch(3)}
    assert gone(refs=refs) == [1, 4]


def test_each_branch_keeps_what_its_settings_keep() -> None:
    assert gone(refs={"main": branch(6), "side": branch(3, min_snapshots_to_keep=2)}) == [1, 4]
    assert gone(refs={"main": branch(6, max_snapshot_age_ms=9 * DAY)}) == [1, 2, 3]


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("history.expire.max-snapshot-age-ms", str(12 * DAY), [1, 2]),
        ("history.expire.max-snapshot-age-ms", "1", [1, 2, 3, 4]),
        ("history.expire.max-snapshot-age-ms", "-5", [1, 2, 3, 4]),
        ("history.expire.min-snapshots-to-keep", "5", [1]),
        ("history.expire.min-snapshots-to-keep", "0", [1, 2, 3, 4]),
        ("history.expire.min-snapshots-to-keep", "many", [1, 2, 3, 4]),
    ],
)
def test_the_tables_own_properties_can_only_keep_more(name: str, value: str, expected: list[int]) -> None:
    assert gone(properties={name: value}) == expected


def test_the_newest_commit_of_each_flink_job_stays_with_all_after_it() -> None:
    flink = {"flink__job_id": "a", "flink__max_committed_checkpoint_id": "7"}
    assert gone(commits=line(20, 15, 10, 8, 4, 1, s2=flink, s3=flink)) == [1, 2]
    assert gone(commits=line(20, 15, 10, 8, 4, 1, s2=flink, s3={**flink, "flink__job_id": "b"})) == [1]
    assert gone(commits=line(90, 80, 40, 8, 4, 1, s2=flink)) == [1, 2, 3, 4], "a job of long ago holds nothing"


def test_what_an_operation_started_from_stays_with_all_after_it() -> None:
    assert gone(KEPT._replace(in_use=frozenset({3}))) == [1, 2]


def test_a_snapshot_of_no_branch_goes_by_its_age() -> None:
    staged = [commit(7, ago(days=9)), commit(8, ago(days=2))]
    assert gone(commits=[*staged, *LINE], refs={"main": branch(6)}) == [1, 2, 3, 7, 4]


def test_a_table_of_the_first_version_has_no_references_and_keeps_its_head() -> None:
    table = snapshot(commits=line(20, 15))
    table.metadata.pop("refs")  # type: ignore[attr-defined]
    assert [one.id for one in expirable(table, KEPT)] == [1]
