# SPDX-License-Identifier: Apache-2.0
"""Which objects of a table are commits, by their paths alone."""

import pytest

from lakehand.formats.delta.table import DeltaFormat
from lakehand.formats.hudi.table import HudiFormat
from lakehand.formats.iceberg.table import IcebergFormat
from lakehand.formats.lance.table import LanceFormat
from lakehand.formats.paimon.table import PaimonFormat
from lakehand.spi import TableFormat

TABLE = "s3://lake/sales/orders"
UUID = "0b0a1c5e-6c1a-4c79-a7a9-cf7f2d1f8a11"
FORMATS: dict[str, TableFormat] = {
    "delta": DeltaFormat(),
    "hudi": HudiFormat(),
    "iceberg": IcebergFormat(),
    "lance": LanceFormat(),
    "paimon": PaimonFormat(),
}
COMMITS = [
    ("delta", "_delta_log/00000000000000000042.json", "42"),
    ("hudi", ".hoodie/20261115214001845.deltacommit", "20261115214001845"),
    ("hudi", ".hoodie/20261115214001845.compaction.requested", "20261115214001845"),
    ("hudi", ".hoodie/timeline/20261115214001845_20261115214002000.commit", "20261115214001845"),
    ("hudi", ".hoodie/timeline/20261115214001845.clustering.requested", "20261115214001845"),
    ("iceberg", f"metadata/00007-{UUID}.metadata.json", "7"),
    ("iceberg", f"metadata/00007-{UUID}.gz.metadata.json", "7"),
    ("iceberg", "metadata/v7.metadata.json", "7"),
    ("paimon", "snapshot/snapshot-3", "3"),
    ("lance", "_versions/18446744073709551610.manifest", "5"),
    ("lance", "_versions/5.manifest", "5"),
]
OTHERS = [
    "part-00000.parquet",
    "_delta_log/00000000000000000010.checkpoint.parquet",
    "_delta_log/_last_checkpoint",
    f"_delta_log/_commits/00000000000000000043.{UUID}.json",
    "_delta_log/.00000000000000000042.json.tmp",
    ".hoodie/hoodie.properties",
    ".hoodie/20261115214001845.deltacommit.inflight",
    ".hoodie/20261115214001845.inflight",
    ".hoodie/metadata/.hoodie/20261115214001845.deltacommit",
    ".hoodie/metadata/.hoodie/timeline/20261115214001845_20261115214002000.deltacommit",
    ".hoodie/.temp/20261115214001845/MARKERS0",
    ".hoodie/timeline/history/manifest_1",
    "metadata/version-hint.text",
    f"metadata/snap-7-1-{UUID}.avro",
    f"metadata/{UUID}-m0.avro",
    "snapshot/LATEST",
    "snapshot/snapshot-3.tmp",
    "branch/branch-test/snapshot/snapshot-3",
    "_versions/5.manifest-0b0a",
    "_versions/d5.manifest",
    "_transactions/4-0b0a.txn",
    "data/a.lance",
    "",
]


@pytest.mark.parametrize(("format", "path", "version"), COMMITS)
def test_a_commit_names_its_table_and_version_to_one_format(format: str, path: str, version: str) -> None:
    found = {name: commit for name, one in FORMATS.items() if (commit := one.commit_of(f"{TABLE}/{path}"))}

    assert found == {format: (TABLE, version)}


@pytest.mark.parametrize("path", OTHERS)
def test_other_objects_are_no_commit_of_any_format(path: str) -> None:
    assert [name for name, one in FORMATS.items() if one.commit_of(f"{TABLE}/{path}")] == []


@pytest.mark.parametrize("name", list(FORMATS))
def test_an_object_at_the_top_of_a_bucket_is_no_commit(name: str) -> None:
    assert FORMATS[name].commit_of("v7.metadata.json") is None
