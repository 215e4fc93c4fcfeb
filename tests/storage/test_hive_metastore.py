# SPDX-License-Identifier: Apache-2.0
"""Which tables of a Hive metastore are of which format, and where they are; a real one is asked in tests/e2e."""

import pytest
from hive_metastore.ttypes import SerDeInfo, StorageDescriptor, Table

from lakehand.spi import Catalog, Format, Invalid
from lakehand.storage.hive_metastore import format_of, location_of, tables_in_metastore


def table(reader: str = "", location: str = "/lake/t", path: str | None = None, **parameters: str) -> Table:
    serde = SerDeInfo(parameters={"path": path} if path else {})
    sd = StorageDescriptor(inputFormat=reader, location=location, serdeInfo=serde)
    return Table(dbName="db", tableName="t", sd=sd, parameters={k.replace("_", "."): v for k, v in parameters.items()})


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (table(spark_sql_sources_provider="delta"), "delta"),
        (table(spark_sql_sources_provider="HUDI"), "hudi"),
        (table(reader="org.apache.hudi.hadoop.HoodieParquetInputFormat"), "hudi"),
        (table(reader="org.apache.paimon.hive.mapred.PaimonInputFormat"), "paimon"),
        (table(reader="org.apache.hadoop.mapred.TextInputFormat"), ""),
    ],
)
def test_the_format_is_what_spark_noted_or_what_hive_reads_it_with(found: Table, expected: str) -> None:
    assert format_of(found) == expected


def test_the_path_counts_and_not_the_placeholder_that_spark_leaves() -> None:
    assert location_of(table(location="/hive/t-__PLACEHOLDER__", path="s3://lake/t")) == "s3://lake/t"
    assert location_of(table(location="file:/hive/t")) == "/hive/t"


def catalog(type: str, uri: str) -> Catalog:
    return Catalog(name="old", format=Format("delta"), type=type, properties={"uri": uri})


def test_a_metastore_that_cannot_be_asked_raises_an_error_with_its_name() -> None:
    with pytest.raises(OSError, match="the catalog old cannot be asked: TTransportException"):
        list(tables_in_metastore(catalog("hive", "thrift://127.0.0.1:9")))
    with pytest.raises(Invalid, match="needs a uri such as thrift://host:9083"):
        list(tables_in_metastore(catalog("hive", "http://x")))
    with pytest.raises(Invalid, match="of delta's, hive is served"):
        list(tables_in_metastore(catalog("glue", "")))
