# SPDX-License-Identifier: Apache-2.0
"""Finding tables under a folder."""

from pathlib import Path

import pytest

from lakehand.app.locations import recogniser
from lakehand.domain.errors import LocationRefused, NotFound
from lakehand.local.discovery import DiscoveredTable, Finder, UnreadableFolder
from lakehand.local.reader import LocalReader, reader_of
from tests import small_tables


@pytest.fixture(scope="module")
def reader() -> LocalReader:
    return reader_of({})


@pytest.fixture
def finder(reader: LocalReader) -> Finder:
    return reader.finder()


def found_under(finder: Finder, folder: Path) -> dict[str, str]:
    found = [one for one in finder.under(str(folder)) if isinstance(one, DiscoveredTable)]
    return {str(Path(one.location).relative_to(folder)): str(one.format) for one in found}


def test_tables_of_all_formats_are_found_at_every_depth(finder: Finder, tmp_path: Path) -> None:
    small_tables.delta(tmp_path / "a" / "orders", commits=1)
    small_tables.hudi(tmp_path / "b" / "c" / "d" / "trips")
    small_tables.lance(tmp_path / "pictures", commits=1)
    small_tables.SqlCatalog(tmp_path / "ice").create("returns")

    assert found_under(finder, tmp_path) == {
        "a/orders": "delta",
        "b/c/d/trips": "hudi",
        "ice/warehouse/sales/returns": "iceberg",
        "pictures": "lance",
    }


def test_tables_and_hidden_folders_are_not_searched(finder: Finder, tmp_path: Path) -> None:
    outer = small_tables.hudi(tmp_path / "outer")
    small_tables.hudi(outer / "inner")
    small_tables.hudi(tmp_path / "_temporary" / "t")
    small_tables.hudi(tmp_path / ".trash" / "t")

    assert found_under(finder, tmp_path) == {"outer": "hudi"}


def test_a_link_in_a_circle_is_not_followed(finder: Finder, tmp_path: Path) -> None:
    small_tables.hudi(tmp_path / "a" / "t")
    (tmp_path / "a" / "again").symlink_to(tmp_path)

    assert found_under(finder, tmp_path) == {"a/t": "hudi"}


def test_a_folder_that_two_formats_know_is_one_table_of_its_owner(finder: Finder, tmp_path: Path) -> None:
    table = small_tables.SqlCatalog(tmp_path).create("orders")
    small_tables.delta(table, commits=1)

    [found] = finder.under(str(table))

    assert isinstance(found, DiscoveredTable)
    assert (found.format, found.also) == ("delta", ("iceberg",))


def test_an_unreadable_folder_does_not_stop_the_others(
    finder: Finder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_tables.hudi(tmp_path / "z")
    (tmp_path / "locked").mkdir()
    contents = finder._contents

    def locked(location: str) -> tuple[list[str], list[str]]:
        if location.endswith("/locked"):
            raise PermissionError(13, "Permission denied", location)
        return contents(location)

    monkeypatch.setattr(finder, "_contents", locked)

    unread, table = finder.under(str(tmp_path))

    assert isinstance(unread, UnreadableFolder)
    assert "Permission denied" in unread.reason
    assert table.location == str(tmp_path / "z")


def test_tables_are_given_as_they_are_found(finder: Finder, tmp_path: Path) -> None:
    for number in range(20):
        small_tables.hudi(tmp_path / f"t{number:02d}")

    first = next(finder.under(str(tmp_path)))

    assert first.location == str(tmp_path / "t00")
    assert finder.folders == 2


def test_a_path_or_catalog_that_does_not_exist_is_an_error(reader: LocalReader, tmp_path: Path) -> None:
    for text, says in (
        (str(tmp_path / "nowhere"), "there is no"),
        ("lake:sales.orders", "no catalog is called 'lake'"),
    ):
        with pytest.raises(NotFound, match=says):
            list(reader.tables_of(text, reader.finder()))


def test_the_recogniser_reads_no_refused_location(reader: LocalReader, tmp_path: Path) -> None:
    def refuse(location: str) -> None:
        raise LocationRefused(location)

    table = small_tables.hudi(tmp_path / "t")

    assert recogniser(reader.plugins.formats, {}, lambda _: None)(str(table)) == "hudi"
    assert recogniser(reader.plugins.formats, {}, lambda _: None)(str(tmp_path / "nowhere")) is None
    with pytest.raises(LocationRefused):
        recogniser(reader.plugins.formats, {}, refuse)(str(table))
