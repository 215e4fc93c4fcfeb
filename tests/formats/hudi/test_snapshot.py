# SPDX-License-Identifier: Apache-2.0
"""The live files of a table, by their names and by the timeline."""

from datetime import datetime, timezone
from pathlib import Path

from lakehand.formats.hudi import HudiFormat
from lakehand.formats.hudi.snapshot import HudiSnapshot, live_files
from lakehand.formats.hudi.timeline import Timeline
from lakehand.spi import TableReference
from lakehand.storage import Entry
from tests.formats.hudi.runtime import copied

NOON = datetime(2026, 11, 15, 12, tzinfo=timezone.utc)
FIRST, SECOND, THIRD = "20261115100000000", "20261115110000000", "20261115120000000"
GROUP, OTHER = "8f5d0c1e-0000-0000-0000-000000000001-0", "8f5d0c1e-0000-0000-0000-000000000002-0"


def entry(name: str, size: int = 10) -> Entry:
    return Entry(name=name, size=size, modified=NOON)


def base(group: str, instant: str, size: int = 10) -> Entry:
    return entry(f"p0/{group}_0-1-2_{instant}.parquet", size)


def log(group: str, instant: str, version: int = 1) -> Entry:
    return entry(f"p0/.{group}_{instant}.log.{version}_0-3-4", 1)


def timeline(*names: str) -> Timeline:
    return Timeline.of(entry(name) for name in names)


DONE = timeline(
    f"{FIRST}_{FIRST}.commit", f"{SECOND}_{SECOND}.commit", f"{THIRD}.commit.requested", f"{THIRD}.inflight"
)


def test_the_newest_committed_file_of_each_group_is_live() -> None:
    entries = [base(GROUP, FIRST, 1), base(GROUP, SECOND, 2), base(GROUP, THIRD, 4), base(OTHER, FIRST, 8)]

    assert sorted(live_files(entries, DONE, ()).base) == [2, 8]


def test_a_file_whose_write_left_the_timeline_long_ago_is_committed_and_one_that_was_rolled_back_is_not() -> None:
    archived, rolled_back = base(GROUP, "20250101000000000", 1), base(OTHER, "20261115103000000", 2)

    assert live_files([archived, rolled_back], DONE, ()).base == (1,)


def test_logs_count_from_the_newest_base_file_on() -> None:
    entries = [base(GROUP, SECOND), log(GROUP, FIRST), log(GROUP, SECOND), log(GROUP, THIRD), log(OTHER, FIRST)]

    assert len(live_files(entries, DONE, ()).logs) == 3


def test_replaced_groups_and_foreign_files_do_not_count() -> None:
    entries = [base(GROUP, FIRST), log(GROUP, FIRST), entry("p0/.hoodie_partition_metadata"), entry("p0/notes.parquet")]

    live = live_files(entries, DONE, {GROUP})

    assert (live.base, live.logs) == ((), ())


def test_deciding_lists_no_folder_and_numbers_do(tmp_path: Path) -> None:
    table = copied("orders_v9", tmp_path)
    (table / "p0").mkdir()
    (table / base(GROUP, "20250101000000000").name).write_bytes(b"12345")
    snapshot = HudiFormat().inspect(TableReference(location=str(table)))
    assert isinstance(snapshot, HudiSnapshot)

    assert snapshot.pending
    assert "numbers" not in vars(snapshot)
    assert (snapshot.numbers["files"], snapshot.numbers["bytes"]) == (1, 5)
