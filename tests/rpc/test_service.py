# SPDX-License-Identifier: Apache-2.0
"""``lakehand serve`` with a gRPC port: it says where it is, ends streams when it ends, and is off by default."""

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
import trustme

from lakehand.app.settings import Settings
from lakehand.rpc.generated import service_pb2
from lakehand.rpc.generated.events_pb2 import WatchEventsRequest
from lakehand.rpc.generated.events_pb2_grpc import EventsStub
from lakehand.rpc.generated.service_pb2_grpc import ServiceStub
from tests.kit.polling import wait_for
from tests.kit.service import RunningService

pytestmark = pytest.mark.server


@pytest.fixture
def service(tmp_path: Path) -> Iterator[RunningService]:
    running = RunningService(tmp_path / "home", tmp_path / "warehouse", grpc_port="0")
    running.warehouse.mkdir()
    running.start()
    yield running
    running.end()


def grpc_address(service: RunningService) -> str:
    return str(json.loads((service.home / "address.json").read_text())["grpc"])


def test_it_says_where_grpc_is_and_counts_calls(service: RunningService) -> None:
    address = grpc_address(service)
    with grpc.insecure_channel(address) as channel:
        answer = ServiceStub(channel).GetVersion(service_pb2.GetVersionRequest(), timeout=30)

    assert answer.version == service.get("/api/v1/version")["version"]
    assert f"lakehand is ready on {service.url}, gRPC on {address}\n" in service.log()
    metrics = httpx.get(f"{service.url}/metrics").text
    assert 'lakehand_rpc_calls_total{code="OK",rpc="Service.GetVersion"} 1.0' in metrics


def test_a_signal_ends_streams_and_the_service(service: RunningService) -> None:
    with grpc.insecure_channel(grpc_address(service)) as channel:
        stream = EventsStub(channel).WatchEvents(WatchEventsRequest(), timeout=60)
        stream.initial_metadata()
        ended = threading.Thread(target=drain, args=(stream,))
        ended.start()

        code = service.stop()

        ended.join(30)
        assert not ended.is_alive()
        assert stream.code() is grpc.StatusCode.UNAVAILABLE
    assert code == 0
    assert "Traceback" not in service.log()


def drain(stream: Any) -> None:
    try:
        list(stream)
    except grpc.RpcError:
        return


def write_pair(folder: Path) -> bytes:
    """A certificate and its key, as files; returns the certificate of their authority."""
    authority = trustme.CA()
    pair = authority.issue_cert("localhost", "127.0.0.1")
    (folder / "key.pem").write_bytes(pair.private_key_pem.bytes())
    (folder / "certificate.pem").write_bytes(b"".join(blob.bytes() for blob in pair.cert_chain_pems))
    return authority.cert_pem.bytes()


def answers(address: str, root: bytes) -> bool:
    """Whether a new connection that trusts this authority is answered."""
    own = [("grpc.use_local_subchannel_pool", 1)]
    with grpc.secure_channel(address, grpc.ssl_channel_credentials(root), own) as channel:
        try:
            return bool(ServiceStub(channel).GetVersion(service_pb2.GetVersionRequest(), timeout=10).version)
        except grpc.RpcError:
            return False


def test_grpc_uses_the_certificate_of_the_service_also_a_changed_one(tmp_path: Path) -> None:
    first = write_pair(tmp_path)
    files = {"tls_certificate": str(tmp_path / "certificate.pem"), "tls_key": str(tmp_path / "key.pem")}
    running = RunningService(tmp_path / "home", tmp_path / "warehouse", grpc_port="0", **files)
    running.warehouse.mkdir()
    try:
        running.start()
        address = grpc_address(running)
        assert answers(address, first)

        second = write_pair(tmp_path)

        wait_for(lambda: answers(address, second), "the new certificate", 60)
        assert not answers(address, first)
    finally:
        running.end()


def test_a_port_that_is_taken_is_named_and_nothing_is_made(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        running = RunningService(tmp_path / "home", tmp_path, grpc_port=str(port))
        with pytest.raises(AssertionError, match=f"cannot listen on 127.0.0.1:{port} for gRPC"):
            running.start()

    assert not (tmp_path / "home" / "lakehand.db").exists()


def test_there_is_no_grpc_without_a_port(tmp_path: Path) -> None:
    assert Settings.model_fields["grpc_port"].default is None
    running = RunningService(tmp_path / "home", tmp_path / "warehouse")
    running.warehouse.mkdir()
    try:
        running.start()
        process: Any = running.process
        assert "grpc" not in json.loads((running.home / "address.json").read_text())
        maps = Path(f"/proc/{process.pid}/maps")
        if maps.exists():
            assert "cygrpc" not in maps.read_text()  # the library is not even loaded
        wait_for(lambda: running.get("/health/ready")["status"] == "ready", "the service", 30)
    finally:
        running.end()
