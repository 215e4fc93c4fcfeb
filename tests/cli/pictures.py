# SPDX-License-Identifier: Apache-2.0
"""Pictures of tables that never were, and what became of them."""

from collections.abc import Sequence

from lakehand.cli.demo.picture import Picture
from lakehand.cli.demo.result import Outcome


def a_picture(*, files: int, checksum: str = "same", **numbers: int) -> Picture:
    return Picture(numbers={"files": files, "bytes": 1000, **numbers}, rows=10, checksum=checksum, seconds=0.1)


def an_outcome(
    after: Picture, *, name: str = "t", statuses: Sequence[str] = ("succeeded",), was_told: bool = True
) -> Outcome:
    return Outcome(
        name=name,
        format="hudi",
        before=a_picture(files=9, log_files=4),
        after=after,
        operations=[("compaction", status) for status in statuses],
        was_told=was_told,
        should_be_told=True,
    )
