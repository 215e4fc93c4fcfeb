# SPDX-License-Identifier: Apache-2.0
"""Which of the named snapshots a job expires, by the metadata that it finds; no Spark."""

from typing import Any

import pytest

from lakehand.jobs.iceberg.expire_snapshots import choose
from lakehand.jobs.safety import UnsafeRequest
from tests.formats.iceberg.made import ago, branch, line, tag

OLDEST = ago(days=5)


def document(snapshots: list[dict[str, Any]], current: int = 6, **refs: dict[str, Any]) -> dict[str, Any]:
    return {"snapshots": snapshots, "current-snapshot-id": current, "refs": {"main": branch(current), **refs}}


def test_of_the_named_ones_those_go_that_are_old_and_that_nothing_holds() -> None:
    table = document(line(10, 10, 10, 10, 4, 10), kept=tag(2), side=branch(3))

    assert choose(table, [1, 2, 3, 5, 6, 99], OLDEST, 1) == ([1], [2, 3, 5, 6])


def test_of_each_branch_so_many_stay_and_of_a_tag_one() -> None:
    table = document(line(*[10] * 6), kept=tag(3))

    assert choose(table, [1, 2, 3, 4, 5, 6], OLDEST, 2) == ([1, 2, 4], [3, 5, 6])


def test_the_newest_checkpoint_of_each_flink_sink_stays() -> None:
    def of(job: str, sink: str) -> dict[str, str]:
        return {"flink__job_id": job, "flink__operator_id": sink}

    table = document(line(*[10] * 6, s1=of("a", "x"), s2=of("a", "x"), s3=of("a", "y"), s4=of("b", "x")))

    assert choose(table, [1, 2, 3, 4, 5], OLDEST, 1) == ([1, 5], [2, 3, 4])


def test_the_last_snapshots_of_a_table_without_a_current_one_stay() -> None:
    nothing = {"snapshots": line(10, 10), "current-snapshot-id": -1, "refs": {}}

    with pytest.raises(UnsafeRequest, match="no snapshot would be left"):
        choose(nothing, [1, 2], OLDEST, 1)
    assert choose(nothing, [1], OLDEST, 1) == ([1], [])


@pytest.mark.parametrize("asked", [None, "all", ["1"], [True], [1.0]])
def test_what_is_no_list_of_numbers_is_refused(asked: Any) -> None:
    with pytest.raises(UnsafeRequest, match="not a list of numbers"):
        choose(document(line(10, 10)), asked, OLDEST, 1)
