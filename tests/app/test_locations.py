# SPDX-License-Identifier: Apache-2.0
"""A link in a warehouse that leads outside is refused."""

from pathlib import Path

import pytest

from lakehand.app.locations import path_guard, warehouses_of
from lakehand.domain.errors import LocationRefused


def test_a_link_that_leads_out_of_the_warehouse_is_refused(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    (tmp_path / "secret").mkdir()
    (tmp_path / "lake" / "t").symlink_to(tmp_path / "secret")
    check = path_guard(warehouses_of([str(tmp_path / "lake")]))
    with pytest.raises(LocationRefused, match="secret"):
        check(str(tmp_path / "lake" / "t"))


def test_a_warehouse_that_is_itself_a_link_is_served(tmp_path: Path) -> None:
    (tmp_path / "real" / "t").mkdir(parents=True)
    (tmp_path / "lake").symlink_to(tmp_path / "real")
    path_guard(warehouses_of([f"file://{tmp_path}/lake/"]))(str(tmp_path / "lake" / "t"))


def test_other_storages_are_compared_by_name() -> None:
    check = path_guard(warehouses_of(["s3://lake/db"]))
    check("s3://lake/db/t")
    with pytest.raises(LocationRefused):
        check("s3://other/db/t")


@pytest.mark.parametrize("bucket", ["s3://lake", "s3://lake/"])
def test_a_whole_bucket_is_a_warehouse(bucket: str) -> None:
    check = path_guard(warehouses_of([bucket]))
    check("s3://lake/t")
    with pytest.raises(LocationRefused):
        check("s3://other/t")
