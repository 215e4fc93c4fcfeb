# SPDX-License-Identifier: Apache-2.0
"""What is said once about a store reaches every reader, and a bucket's own options count for that bucket alone."""

from collections.abc import Iterator

import pytest

from lakehand.storage import Storages
from lakehand.storage.object_stores import buckets_in, lance_options, s3_options
from tests.s3_server import KEY, REGION, Server, s3_server

SAID = {
    "s3.endpoint": "http://store.internal:9000", "s3.region": "eu-1", "s3.access-key-id": "k",
    "s3.secret-access-key": "hush", "s3.bucket.logs.2026.region": "eu-2",
    "s3.bucket.logs.2026.endpoint": "https://other.internal",
}  # fmt: skip


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with s3_server() as one:
        for bucket in ("lake", "secret"):
            one.make_bucket(bucket)
            one.put(bucket, "db/t/_delta_log/0.json", bucket.encode())
        yield one


@pytest.fixture
def storages(server: Server) -> Storages:
    said = {"endpoint": server.endpoint, "region": REGION, "access-key-id": KEY, "secret-access-key": KEY}
    return Storages({f"s3.{key}": value for key, value in said.items()})


def test_a_bucket_has_its_own_options_and_else_those_of_all() -> None:
    own, other = s3_options(SAID, "logs.2026"), s3_options(SAID, "lake")
    assert (own.endpoint, own.region, own.access_key_id) == ("https://other.internal", "eu-2", "k")
    assert (other.endpoint, other.region) == ("http://store.internal:9000", "eu-1")
    assert buckets_in(SAID) == ["logs.2026"]


def test_a_store_of_ones_own_has_the_bucket_in_the_path_unless_it_is_said_otherwise() -> None:
    assert s3_options(SAID).is_path_style
    assert not s3_options({**SAID, "s3.path-style-access": "false"}).is_path_style
    assert not s3_options({}).is_path_style


def test_secrets_are_not_shown() -> None:
    assert "hush" not in repr(s3_options(SAID))


def test_lance_gets_the_same_under_its_own_names() -> None:
    assert lance_options(SAID, "s3a://lake/t") == {
        "aws_endpoint": "http://store.internal:9000", "aws_region": "eu-1", "aws_access_key_id": "k",
        "aws_secret_access_key": "hush", "allow_http": "true",
    }  # fmt: skip
    assert "allow_http" not in lance_options(SAID, "s3://logs.2026/t")
    assert lance_options(SAID, "/data/t") == {}


def test_lance_is_told_nothing_where_nothing_is_said() -> None:
    """Then its client goes by the environment alone."""
    assert lance_options({}, "s3://lake/t") == {}
    assert lance_options({"s3.path-style-access": "false"}, "s3://lake/t") == {
        "aws_virtual_hosted_style_request": "true"
    }


@pytest.mark.server
@pytest.mark.parametrize("scheme", ["s3", "s3a", "s3n"])
def test_files_are_read_by_every_spelling_and_buckets_are_never_mixed_up(storages: Storages, scheme: str) -> None:
    for bucket in ("lake", "secret"):
        storage, root = storages.of(f"{scheme}://{bucket}/db/t")
        assert storage.read(f"{root}/_delta_log/0.json") == bucket.encode()
        assert storage.contents(root) == ([], ["_delta_log"])


@pytest.mark.server
def test_what_is_not_there_is_named(storages: Storages) -> None:
    storage, root = storages.of("s3://lake/db/t")
    with pytest.raises(FileNotFoundError):
        storage.read(f"{root}/missing")
