# SPDX-License-Identifier: Apache-2.0
"""Readers beside a store that is busy, slow or loses its answers: a proxy with faults before an S3 server (moto)."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import lance
import pyarrow as pa
import pytest
from lance.optimize import Compaction

from lakehand.formats.delta.table import DeltaFormat
from lakehand.spi import TableReference
from lakehand.storage import Storages
from tests.s3_proxy import LIST, Fault, Proxy, s3_proxy
from tests.s3_server import KEY, REGION, Server, s3_server

pytestmark = pytest.mark.server

BUCKET, FOLDER = "lake", "db/t/_delta_log"
VERSIONS = 1100  # a page of a listing has a thousand
TABLE = TableReference(location=f"s3://{BUCKET}/db/t")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with s3_server() as one:
        one.make_bucket(BUCKET)
        with ThreadPoolExecutor(8) as pool:
            names = [f"{FOLDER}/{version:020d}.json" for version in range(VERSIONS)]
            list(pool.map(lambda name: one.put(BUCKET, name, b"{}"), names))
        yield one


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    with s3_proxy(server.endpoint) as one:
        yield one


def said(proxy: Proxy) -> dict[str, str]:
    options = {"endpoint": proxy.endpoint, "region": REGION, "access-key-id": KEY, "secret-access-key": KEY}
    return {f"s3.{key}": value for key, value in options.items()}


def read(proxy: Proxy, name: str = f"{FOLDER}/{0:020d}.json") -> bytes:
    storage, path = Storages(said(proxy)).of(f"s3://{BUCKET}/{name}")
    return storage.read(path)


def test_a_listing_goes_on_to_its_last_page(proxy: Proxy) -> None:
    reader = DeltaFormat()
    reader.open(said(proxy))
    with proxy.counting() as found:
        assert reader.probe(TABLE).startswith(f"{VERSIONS - 1}/")
    assert found[LIST] == 2


@pytest.mark.parametrize("size", [1, 5000])
@pytest.mark.parametrize("kind", ["HEAD", "GET"])
def test_a_busy_store_is_asked_again_for_files_of_any_size(kind: str, size: int, server: Server, proxy: Proxy) -> None:
    server.put(BUCKET, f"file-{size}", b"x" * size)
    fault = proxy.add(Fault(do="busy", kind=kind, times=3))
    assert read(proxy, f"file-{size}") == b"x" * size
    assert fault.times == 0


def test_a_listing_that_is_throttled_in_the_middle_loses_no_name(proxy: Proxy) -> None:
    proxy.add(Fault(do="busy", kind=LIST, times=2))
    storage, path = Storages(said(proxy)).of(f"s3://{BUCKET}/{FOLDER}")
    assert len(storage.names(path)) == VERSIONS


@pytest.mark.parametrize("kind", ["HEAD", "GET"])
def test_an_answer_that_is_lost_is_asked_for_again(kind: str, proxy: Proxy) -> None:
    fault = proxy.add(Fault(do="lose", kind=kind))
    assert read(proxy) == b"{}"
    assert fault.times == 0


def test_a_store_that_does_not_answer_is_asked_again_after_the_time_limit(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakehand.storage.storages.SECONDS_TO_ANSWER", 0.5)
    fault = proxy.add(Fault(do="silent", kind="GET", seconds=3))
    assert read(proxy) == b"{}"
    assert fault.times == 0


def test_a_store_that_stays_busy_is_an_error_and_never_an_absent_file(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakehand.storage.storages.ATTEMPTS", 2)
    reader = DeltaFormat()
    reader.open(said(proxy))
    reader.probe(TABLE)
    proxy.add(Fault(do="busy", times=1000))
    with pytest.raises(OSError, match="HTTP status 503") as failure:
        reader.probe(TABLE)
    assert not isinstance(failure.value, FileNotFoundError)


def test_a_commit_of_lance_whose_answer_is_lost_neither_fails_nor_doubles_rows(server: Server, proxy: Proxy) -> None:
    """The store has the version: the client sends it again, is refused, and must not take that for a rival."""
    table, options = f"s3://{BUCKET}/lance", {**server.lance_options(), "aws_endpoint": proxy.endpoint}
    for number in range(4):
        rows = pa.table({"id": [number]})
        lance.write_dataset(rows, table, mode="append" if number else "create", storage_options=options)
    fault = proxy.add(Fault(do="lose", kind="PUT", key="_versions/", times=1))
    lance.write_dataset(pa.table({"id": [4]}), table, mode="append", storage_options=options)
    fault.times += 1
    dataset = lance.dataset(table, storage_options=options)
    plan = Compaction.plan(dataset, options={"target_rows_per_fragment": 100})
    Compaction.commit(dataset, [task.execute(dataset) for task in plan.tasks])

    assert fault.times == 0
    seen = lance.dataset(table, storage_options=options)
    assert sorted(seen.to_table().column("id").to_pylist()) == [0, 1, 2, 3, 4]
    assert len(seen.get_fragments()) == 1
