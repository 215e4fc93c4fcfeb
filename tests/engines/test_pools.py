# SPDX-License-Identifier: Apache-2.0
"""A person's file of scheduler pools."""

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from lakehand.domain.errors import Invalid
from lakehand.engines.spark.command import POOLS_FILE, complete_pools

WITHOUT = '<allocations><pool name="etl"><weight>2</weight></pool></allocations>'
WITH = '<allocations><pool name="default"><weight>2</weight></pool></allocations>'


def written(folder: Path, text: str) -> Path:
    file = folder / "fair.xml"
    file.write_text(text)
    return file


def test_a_file_without_the_default_pool_is_copied_with_one(tmp_path: Path) -> None:
    theirs = written(tmp_path, WITHOUT)
    for spelling in (str(theirs), f"file:{theirs}", f"file://{theirs}"):
        copy = Path(complete_pools({POOLS_FILE: spelling}, tmp_path)[POOLS_FILE].removeprefix("file://"))
        pools = {pool.get("name"): pool for pool in ET.fromstring(copy.read_text()).iter("pool")}

        assert set(pools) == {"etl", "default"}
        assert pools["default"].findtext("schedulingMode") == "FAIR"
        assert pools["etl"].findtext("weight") == "2"
    assert theirs.read_text() == WITHOUT


def test_a_file_with_the_default_pool_is_used_as_it_is(tmp_path: Path) -> None:
    theirs = str(written(tmp_path, WITH))
    assert complete_pools({POOLS_FILE: theirs}, tmp_path) == {POOLS_FILE: theirs}
    assert complete_pools({}, tmp_path) == {}


@pytest.mark.parametrize("named", ["hdfs://x/fair.xml", "/none/fair.xml", "s3a://b/fair.xml"])
def test_a_file_that_cannot_be_checked_is_refused(named: str, tmp_path: Path) -> None:
    with pytest.raises(Invalid, match=r"allocation\.file"):
        complete_pools({POOLS_FILE: named}, tmp_path)


def test_a_file_that_is_no_xml_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="cannot be read"):
        complete_pools({POOLS_FILE: str(written(tmp_path, "pools"))}, tmp_path)
