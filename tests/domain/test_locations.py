# SPDX-License-Identifier: Apache-2.0
"""Locations have one spelling, and nothing climbs out of a warehouse."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehand.domain.errors import LocationRefused
from lakehand.domain.locations import Warehouses, location_key, normalise, normalise_prefix


@pytest.mark.parametrize(
    "text",
    ["/data/trips", "/data/trips/", "/data//trips", "/data/./trips", "file:/data/trips", "file:///data/trips",
     "file://localhost/data/trips", "FILE:/data/trips", "//data/trips"[1:]],
)  # fmt: skip
def test_every_spelling_of_a_folder_is_one_location(text: str) -> None:
    assert normalise(text) == "/data/trips"


@pytest.mark.parametrize(
    ("text", "location"),
    [
        ("s3a://Lake/db/t/", "s3a://lake/db/t"),
        ("S3://lake//db/t", "s3://lake/db/t"),
        ("hdfs:///warehouse/t", "hdfs:///warehouse/t"),
        ("hdfs://Name:8020/warehouse/T", "hdfs://name:8020/warehouse/T"),
        ("/data/a b/ü%41", "/data/a b/ü%41"),
    ],
)
def test_other_storages_keep_their_scheme_and_the_case_of_their_path(text: str, location: str) -> None:
    assert normalise(text) == location


@pytest.mark.parametrize(
    "text",
    ["s3://my.lake/db/T", "https://my.lake.s3.eu-central-1.amazonaws.com/db/T/", "https://s3.amazonaws.com/my.lake/db/T",
     "https://s3.dualstack.eu-west-1.amazonaws.com/my.lake//db/T", "https://my.lake.s3-us-west-2.amazonaws.com/db/T",
     "http://My.Lake.s3.cn-north-1.amazonaws.com.cn/db/T"],
)  # fmt: skip
def test_the_web_addresses_of_a_bucket_are_the_bucket(text: str) -> None:
    assert normalise(text) == "s3://my.lake/db/T"


@pytest.mark.parametrize(
    "text",
    ["https://example.org/lake/t", "https://lake.s3.eu-central-1.amazonaws.com.example.org/t", "https:///t",
     "https://lake.s3.eu-central-1.amazonaws.com/", "https://s3.amazonaws.com/lake", "https://xs3.amazonaws.com/lake/t",
     "https://minio.internal:9000/lake/t", "https://u:p@lake.s3.amazonaws.com/t"],
)  # fmt: skip
def test_other_web_addresses_are_no_locations(text: str) -> None:
    with pytest.raises(LocationRefused):
        normalise(text)


@pytest.mark.parametrize(
    "text",
    ["", " /data/t", "/data/t\n", "/data/../etc", "data/t", "/", "file://host/data/t", "s3:///t", "/data/%2e%2E/etc",
     "/data%2Fetc", "/data/\x00", "C:\\data", "/data\\t", "/" + "x" * 2000, "s3://bucket", "s3://bucket/a/../../b"],
)  # fmt: skip
def test_a_location_that_could_mislead_is_refused(text: str) -> None:
    with pytest.raises(LocationRefused):
        normalise(text)


@given(st.text(max_size=60))
def test_normalising_twice_changes_nothing(text: str) -> None:
    try:
        once = normalise("/data/" + text)
    except LocationRefused:
        return
    assert normalise(once) == once
    assert once.startswith("/data")
    assert ".." not in once.split("/")


def test_the_schemes_of_one_storage_are_one_identity() -> None:
    assert location_key("s3a://lake/db/t") == location_key("s3://lake/db/t") != location_key("/lake/db/t")


def test_a_folder_with_the_same_prefix_is_outside() -> None:
    warehouses = Warehouses(prefixes=("/data/lake",))
    warehouses.admit("/data/lake/t")
    with pytest.raises(LocationRefused, match="--warehouse"):
        warehouses.admit("/data/lakeside/t")


def test_without_warehouses_nothing_is_served() -> None:
    with pytest.raises(LocationRefused, match="none configured"):
        Warehouses(prefixes=()).admit("/data/t")


@pytest.mark.parametrize(
    ("text", "prefix", "inside"),
    [
        ("s3://lake", "s3://lake", "s3://lake/t"),
        ("S3://Lake/", "s3://lake", "s3://lake/db/t"),
        ("gs://b", "gs://b", "gs://b/t"),
        ("abfss://c@account.example", "abfss://c@account.example", "abfss://c@account.example/t"),
        ("hdfs://nn:8020/", "hdfs://nn:8020", "hdfs://nn:8020/t"),
        ("hdfs:///", "hdfs:///", "hdfs:///t"),
        ("s3://lake/db/", "s3://lake/db", "s3://lake/db/t"),
        ("/data", "/data", "/data/t"),
    ],
)
def test_a_bucket_is_a_warehouse(text: str, prefix: str, inside: str) -> None:
    assert normalise_prefix(text) == prefix
    Warehouses(prefixes=(prefix,)).admit(normalise(inside))


@pytest.mark.parametrize("text", ["/", "file:///", "file:/", "//", "s3://", "s3:", "", "lake"])
def test_everything_and_nothing_are_no_warehouse(text: str) -> None:
    with pytest.raises(LocationRefused):
        normalise_prefix(text)


@pytest.mark.parametrize(
    ("prefix", "outside"),
    [
        ("s3://lake", "s3://lakeside/t"),
        ("s3://lake", "s3://other/lake/t"),
        ("hdfs:///", "hdfs://nn/t"),
        ("hdfs://nn", "hdfs:///nn/t"),
        ("gs://b", "s3://b/t"),
    ],
)
def test_another_bucket_is_outside(prefix: str, outside: str) -> None:
    with pytest.raises(LocationRefused, match="outside of the warehouses"):
        Warehouses(prefixes=(normalise_prefix(prefix),)).admit(normalise(outside))


@pytest.mark.parametrize("text", ["s3://lake", "s3://lake/", "gs://b//", "hdfs://nn", "hdfs:///", "/"])
def test_a_bucket_itself_is_no_table(text: str) -> None:
    with pytest.raises(LocationRefused, match="a table is a folder"):
        normalise(text)


@pytest.mark.parametrize(
    ("given", "spelled"),
    [
        ("s3://lake/t", "s3a://lake/t"),
        ("s3n://lake/t", "s3a://lake/t"),
        ("s3a://lake/t", "s3a://lake/t"),
        ("s3://other/t", "s3://other/t"),
        ("s3://lakeside/t", "s3://lakeside/t"),
        ("gs://lake/t", "gs://lake/t"),
        ("/lake/t", "/lake/t"),
    ],
)
def test_a_location_is_spelled_as_the_warehouse_above_it(given: str, spelled: str) -> None:
    assert Warehouses(prefixes=("/lake", "s3a://lake")).respell(given) == spelled
