# SPDX-License-Identifier: Apache-2.0
"""The boundary that the service draws when it admits an operation."""

from pathlib import Path

import pytest

from lakehand.app.locations import boundaries, path_guard, warehouses_of
from lakehand.domain.errors import LocationRefused
from lakehand.domain.locations import Boundary


def drawn(location: str, *extra: str, warehouses: list[str]) -> Boundary:
    allowed = warehouses_of(warehouses)
    return boundaries(allowed, path_guard(allowed))(location, extra)


def test_a_boundary_says_where_links_lead_and_which_folder_is_there(tmp_path: Path) -> None:
    (tmp_path / "lake" / "real").mkdir(parents=True)
    (tmp_path / "lake" / "trips").symlink_to(tmp_path / "lake" / "real")
    found = (tmp_path / "lake" / "real").stat()
    boundary = drawn(str(tmp_path / "lake" / "trips"), warehouses=[str(tmp_path / "lake")])
    assert boundary.real == str(tmp_path / "lake" / "real")
    assert boundary.folder == f"{found.st_dev}:{found.st_ino}"
    assert boundary.warehouses == (str(tmp_path / "lake"),)


def test_extra_locations_lie_in_a_warehouse_too(tmp_path: Path) -> None:
    (tmp_path / "lake" / "trips").mkdir(parents=True)
    trips, lake = str(tmp_path / "lake" / "trips"), str(tmp_path / "lake")
    assert drawn(trips, f"{lake}/data/", warehouses=[lake]).extra == (f"{lake}/data",)
    with pytest.raises(LocationRefused, match="extra-locations names '/etc'"):
        drawn(trips, "/etc", warehouses=[lake])


def test_an_extra_location_behind_a_link_out_of_the_warehouse_is_refused(tmp_path: Path) -> None:
    (tmp_path / "lake" / "trips").mkdir(parents=True)
    (tmp_path / "lake" / "data").symlink_to(tmp_path)
    with pytest.raises(LocationRefused, match="outside of the warehouses"):
        drawn(f"{tmp_path}/lake/trips", f"{tmp_path}/lake/data/x", warehouses=[f"{tmp_path}/lake"])


def test_object_stores_have_no_links_and_no_folders() -> None:
    boundary = drawn("s3a://lake/db/trips", warehouses=["s3a://lake/db/"])
    assert (boundary.real, boundary.folder) == ("s3a://lake/db/trips", "")
