# SPDX-License-Identifier: Apache-2.0
"""Locations have one spelling, and nothing climbs out of a warehouse."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehand.domain.errors import LocationRefused
from lakehand.domain.locations import Warehouses, location_key, normalise


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


def test_a_neighbour_with_the_same_beginning_is_outside() -> None:
    warehouses = Warehouses(prefixes=("/data/lake",))
    warehouses.admit("/data/lake/t")
    with pytest.raises(LocationRefused, match="--warehouse"):
        warehouses.admit("/data/lakeside/t")


def test_without_warehouses_nothing_is_served() -> None:
    with pytest.raises(LocationRefused, match="none configured"):
        Warehouses(prefixes=()).admit("/data/t")
