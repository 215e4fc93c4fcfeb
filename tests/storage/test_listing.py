# SPDX-License-Identifier: Apache-2.0
"""Folders of 100 000 objects: how many requests a listing and a look cost. The server is a stand-in for S3."""

from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

import psutil
import pytest

from lakehand.formats.delta import DeltaFormat, DeltaProcessFactory
from lakehand.formats.hudi import HudiFormat, HudiProcessFactory
from lakehand.formats.lance import LanceFormat, LanceProcessFactory
from lakehand.formats.paimon import PaimonFormat, PaimonProcessFactory
from lakehand.spi import DetachedRuntime, Format, ProcessFactory, TableFormat, TableSpec
from lakehand.storage import Storage, Storages
from tests import small_tables
from tests.formats.paimon.handmade import HandMade, small
from tests.many_keys import PAGE, ManyKeys, many_keys
from tests.s3_server import KEY, REGION

pytestmark = pytest.mark.server
OBJECTS = 100_000
PAGES = OBJECTS // PAGE
COMMITS = 6
NOW = datetime(2026, 11, 16, 12, tzinfo=timezone.utc)
MOST_BYTES = 2000  # of memory per object

# Where the data of each format lies.
DATA = {
    "delta": "part-{:05d}.snappy.parquet", "hudi": "p0/{:08d}-0_0-1-0_20261115213840819.parquet",
    "lance": "data/{:08d}.lance", "paimon": "bucket-0/data-{:08d}-0.parquet",
}  # fmt: skip
PLUGINS: dict[str, tuple[type[TableFormat], type[ProcessFactory]]] = {
    "delta": (DeltaFormat, DeltaProcessFactory),
    "hudi": (HudiFormat, HudiProcessFactory),
    "lance": (LanceFormat, LanceProcessFactory),
    "paimon": (PaimonFormat, PaimonProcessFactory),
}
# How often a look with all actions and numbers lists the data.
LISTINGS = {"delta": 0, "hudi": 1, "lance": 0, "paimon": 1}
OTHERS = 20  # listings of other folders at most


@pytest.fixture
def bucket() -> Iterator[ManyKeys]:
    with many_keys() as one:
        yield one


def properties(bucket: ManyKeys) -> dict[str, str]:
    said = {"endpoint": bucket.endpoint, "region": REGION, "access-key-id": KEY, "secret-access-key": KEY}
    return {f"s3.{key}": value for key, value in said.items()}


def opened(bucket: ManyKeys) -> tuple[Storage, str]:
    return Storages(properties(bucket)).of("s3://lake/t")


def test_a_hundred_thousand_keys_take_a_hundred_requests_and_at_most_two_kilobytes_each(bucket: ManyKeys) -> None:
    bucket.put_empty(f"t/p={n % 10}/{DATA['delta'].format(n)}" for n in range(OBJECTS))
    storage, root = opened(bucket)
    storage.contents(root)  # loads libraries
    bucket.pages.clear()
    before = psutil.Process().memory_info().rss
    found = storage.below(root)
    assert psutil.Process().memory_info().rss - before < OBJECTS * MOST_BYTES
    assert len(found) == OBJECTS
    assert bucket.pages == [PAGE] * PAGES


def test_folders_with_many_keys_in_them_are_listed_by_one_request(bucket: ManyKeys) -> None:
    bucket.put_empty(f"t/p={n % 10}/{n}" for n in range(OBJECTS))
    storage, root = opened(bucket)
    assert storage.contents(root) == ([], [f"p={n}" for n in range(10)])
    assert bucket.pages == [10]


def make_table(name: str, folder: Path) -> None:
    if name == "delta":
        small_tables.delta(folder, COMMITS)
    elif name == "lance":
        small_tables.lance(folder, COMMITS)
    elif name == "hudi":
        small_tables.hudi(folder)
    else:
        paimon = HandMade(folder)
        for number in range(COMMITS):
            paimon.commit(small(2, f"data{number}"))


def look(name: str, bucket: ManyKeys) -> None:
    """All actions are decided upon, and the numbers are read."""
    reader, factory, kind = PLUGINS[name][0](), PLUGINS[name][1](), Format(name)
    reader.open(properties(bucket))
    factory.open({})
    actions = factory.supported_actions()[kind]
    spec = TableSpec(location="s3://lake/t", format=kind, action_types=actions)
    table = DetachedRuntime(spec=spec, format=reader, now=NOW)
    for action in sorted(actions):
        factory.trigger(table, action)
    assert table.snapshot().numbers


@pytest.mark.parametrize("name", PLUGINS)
def test_a_look_at_a_table_of_a_hundred_thousand_objects_lists_them_at_most_once(
    name: str, bucket: ManyKeys, tmp_path: Path
) -> None:
    make_table(name, tmp_path / name)
    for file in (one for one in (tmp_path / name).rglob("*") if one.is_file()):
        bucket.put(f"t/{file.relative_to(tmp_path / name)}", file.read_bytes())
    bucket.put_empty(f"t/{DATA[name].format(n)}" for n in range(OBJECTS))
    look(name, bucket)
    full = [size for size in bucket.pages if size == PAGE]
    assert len(full) == LISTINGS[name] * PAGES, bucket.pages
    assert len(bucket.pages) - len(full) <= OTHERS
