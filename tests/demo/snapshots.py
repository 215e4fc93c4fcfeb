# SPDX-License-Identifier: Apache-2.0
"""Made-up snapshots and outcomes of demo tables."""

from collections.abc import Sequence

from lakehand.demo.result import DemoSnapshot, TableOutcome


def a_snapshot(*, files: int, checksum: str = "same", **numbers: int) -> DemoSnapshot:
    return DemoSnapshot(numbers={"files": files, "bytes": 1000, **numbers}, rows=10, checksum=checksum, seconds=0.1)


def an_outcome(
    after: DemoSnapshot, *, name: str = "t", statuses: Sequence[str] = ("succeeded",), was_notified: bool = True
) -> TableOutcome:
    return TableOutcome(
        name=name,
        format="hudi",
        before=a_snapshot(files=9, log_files=4),
        after=after,
        operations=[("compaction", status) for status in statuses],
        was_notified=was_notified,
        should_be_notified=True,
    )
