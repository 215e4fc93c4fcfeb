# SPDX-License-Identifier: Apache-2.0
"""The listing that a full vacuum is given: no link is followed, and nothing is in it that Delta would hide."""

from pathlib import Path

import pytest

from lakehand.jobs.boundary import OutsideTable
from lakehand.jobs.delta.vacuum import entries_below, is_hidden

HIDDEN = {
    "a.parquet": False,
    "p=1/a.parquet": False,
    "_delta_log/0.json": True,
    "p=1/_temporary/0/a.parquet": True,
    "p=1/.a.parquet.crc": True,
    "_symlink_format_manifest/manifest": True,
    "_change_data/p=1/cdc-0.parquet": False,
    "_day=1/a.parquet": False,
    "_days=1/a.parquet": True,
}


@pytest.mark.parametrize("path", HIDDEN)
def test_what_delta_hides_from_its_own_listing_is_hidden_at_every_level(path: str) -> None:
    assert is_hidden(path, ["p", "_day"]) is HIDDEN[path]


def test_files_and_empty_folders_are_listed_with_sizes_and_times(tmp_path: Path) -> None:
    (tmp_path / "p=1" / "empty").mkdir(parents=True)
    (tmp_path / "p=1" / "a b.parquet").write_text("four")
    found = {one.path: one for one in entries_below(str(tmp_path))}
    assert set(found) == {"p=1/a b.parquet", "p=1/empty"}
    file = found["p=1/a b.parquet"]
    assert (file.length, file.is_folder) == (4, False)
    assert file.modified == (tmp_path / "p=1" / "a b.parquet").stat().st_mtime_ns // 1_000_000
    assert found["p=1/empty"].is_folder


@pytest.mark.parametrize("target", ["elsewhere", "nowhere"])
def test_a_link_stops_the_listing(tmp_path: Path, target: str) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "table" / "p=1").mkdir(parents=True)
    (tmp_path / "table" / "p=1" / "more").symlink_to(tmp_path / target)
    with pytest.raises(OutsideTable, match=f"p=1/more .*{target}"):
        list(entries_below(str(tmp_path / "table")))
