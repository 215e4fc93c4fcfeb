# SPDX-License-Identifier: Apache-2.0
"""A whole bucket or file system as a prefix: what is in it, and what only looks like it."""

import pytest

from lakehand.jobs.paths import is_below


@pytest.mark.parametrize(
    ("path", "prefix", "is_inside"),
    [
        ("s3a://lake/t", "s3://lake", True),
        ("s3://lake/t", "s3://lake/", True),
        ("s3://lakeside/t", "s3://lake", False),
        ("hdfs://nn/t", "hdfs://nn", True),
        ("hdfs:///t", "hdfs:///", True),
        ("hdfs://nn/t", "hdfs:///", False),
        ("/data/t", "/data/", True),
    ],
)
def test_a_whole_bucket_holds_what_is_in_it_and_nothing_else(path: str, prefix: str, is_inside: bool) -> None:
    assert is_below(path, prefix) is is_inside
