# SPDX-License-Identifier: Apache-2.0
"""A service behind TLS, with an authority of its own."""

import ssl
from pathlib import Path

import pytest
import trustme

from lakehand.client import NO_RETRIES, Unavailable
from tests.client.conftest import MakeClient
from tests.client.servers import little_server
from tests.client.test_retries import VERSION


def test_without_tls_no_authorities_are_read(make_client: MakeClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """That takes longer than a request, and a command makes one or two of them."""
    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", never)
    monkeypatch.setattr(ssl.SSLContext, "load_default_certs", never)

    with little_server(VERSION) as server:
        assert make_client(server.url).version().version == "1"
    with pytest.raises(AssertionError, match="authorities"):
        make_client("https://127.0.0.1:1")


def never(*_: object, **__: object) -> None:
    raise AssertionError("the authorities are read")


def test_only_a_service_with_a_certificate_of_the_given_authority_is_trusted(
    make_client: MakeClient, tmp_path: Path
) -> None:
    authority, file = trustme.CA(), tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(file))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)

    with little_server(VERSION, tls=context) as server:
        assert make_client(server.url, verify=file).version().version == "1"
        assert make_client(server.url, verify=str(file)).version().version == "1"
        assert make_client(server.url, verify=ssl.create_default_context(cafile=file)).version().version == "1"
        with pytest.raises(Unavailable, match="certificate verify failed"):
            make_client(server.url, retries=NO_RETRIES).version()
