# SPDX-License-Identifier: Apache-2.0
"""How many requests to an S3 server (moto) a probe costs, by format: idle tables are paid for by the request."""

import gzip
from collections.abc import Iterator

import pytest

from lakehand.formats.delta.table import DeltaFormat
from lakehand.formats.hudi.table import HudiFormat
from lakehand.formats.iceberg.table import IcebergFormat
from lakehand.formats.lance.table import LanceFormat
from lakehand.formats.paimon.table import PaimonFormat
from lakehand.spi import TableFormat
from lakehand.storage.storages import MOST_BY_NAME
from tests.s3_proxy import Proxy, s3_proxy
from tests.s3_server import s3_server
from tests.s3_tables import BUCKET, S3Tables, s3_tables

pytestmark = pytest.mark.server

FORMATS: dict[str, type[DeltaFormat | HudiFormat | IcebergFormat | LanceFormat | PaimonFormat]] = {
    "delta": DeltaFormat, "hudi": HudiFormat, "iceberg": IcebergFormat, "iceberg-jdbc": IcebergFormat,
    "lance": LanceFormat, "paimon": PaimonFormat,
}  # fmt: skip
MOST = 2


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Proxy, S3Tables]]:
    with (
        s3_server() as server,
        s3_proxy(server.endpoint) as proxy,
        s3_tables(server, proxy.endpoint, tmp_path_factory.mktemp("tables")) as tables,
    ):
        yield proxy, tables


def opened(name: str, tables: S3Tables) -> TableFormat:
    reader = FORMATS[name]()
    reader.open(tables.reader_properties())
    return reader


@pytest.mark.parametrize("name", FORMATS)
def test_a_probe_costs_at_most_two_requests_on_an_unchanged_table_and_after_a_commit(
    counted: tuple[Proxy, S3Tables], name: str
) -> None:
    proxy, tables = counted
    reader, reference = opened(name, tables), tables.references()[name]
    first = reader.inspect(reference).token

    with proxy.counting() as unchanged:
        assert reader.probe(reference) == first
    tables.commit(name)
    with proxy.counting() as changed:
        after = reader.probe(reference)

    assert after != first
    assert after == reader.inspect(reference).token == opened(name, tables).probe(reference)
    assert unchanged.total() <= MOST, unchanged
    assert changed.total() <= MOST, changed
    assert unchanged["LIST"] <= 1  # the dearest request


@pytest.mark.parametrize("name", ["delta", "lance", "iceberg"])
def test_many_commits_at_once_are_found_by_a_listing(counted: tuple[Proxy, S3Tables], name: str) -> None:
    proxy, tables = counted
    reader, reference = opened(name, tables), tables.references()[name]
    reader.probe(reference)
    for _ in range(MOST_BY_NAME + 2):
        tables.commit(name)
    with proxy.counting() as found:
        assert reader.probe(reference) == reader.inspect(reference).token
    assert found["LIST"] >= 1


def test_a_metadata_file_with_another_compression_is_found_by_the_hint(counted: tuple[Proxy, S3Tables]) -> None:
    """Its name is not the one that the next version was asked for by."""
    _, tables = counted
    reader, reference = opened("iceberg", tables), tables.references()["iceberg"]
    folder, server = "tables/iceberg/metadata", tables.server
    before = reader.probe(reference)
    version = int(server.get(BUCKET, f"{folder}/version-hint.text"))
    document = server.get(BUCKET, f"{folder}/v{version}.metadata.json")
    server.put(BUCKET, f"{folder}/v{version + 1}.gz.metadata.json", gzip.compress(document))
    server.put(BUCKET, f"{folder}/version-hint.text", str(version + 1).encode() + b" ")  # a second is one sign
    after = reader.probe(reference)
    assert (before, after) == (f"v{version}.metadata.json", f"v{version + 1}.gz.metadata.json")
    assert reader.inspect(reference).token == after
