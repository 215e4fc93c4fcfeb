# SPDX-License-Identifier: Apache-2.0
"""gRPC over TLS: new connections get the certificate that is current then."""

import grpc
import pytest
import trustme

from lakehand.rest import ApiContext
from lakehand.rpc.generated import service_pb2
from lakehand.rpc.generated.service_pb2_grpc import ServiceStub
from tests.rpc.parts import rpc_context, rpc_serving


class Renewed:
    """Certificates for localhost, each time from an authority of its own."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        self.authority = trustme.CA()
        self.certificate = self.authority.issue_cert("localhost", "127.0.0.1")

    @property
    def version(self) -> object:
        return self.certificate

    def pem(self) -> tuple[bytes, bytes]:
        chain = b"".join(blob.bytes() for blob in self.certificate.cert_chain_pems)
        return self.certificate.private_key_pem.bytes(), chain

    @property
    def root(self) -> bytes:
        return self.authority.cert_pem.bytes()


def version_over(address: str, root: bytes) -> str:
    """Over a new connection that trusts this authority."""
    own = [("grpc.use_local_subchannel_pool", 1)]
    with grpc.secure_channel(address, grpc.ssl_channel_credentials(root), own) as channel:
        return ServiceStub(channel).GetVersion(service_pb2.GetVersionRequest(), timeout=10).version


def test_a_renewed_certificate_counts_for_new_connections(api: ApiContext) -> None:
    certificates = Renewed()
    with rpc_serving(rpc_context(api), certificates=certificates) as client:
        first = certificates.root
        assert version_over(client.server.address, first) == "0.1.0"

        certificates.renew()

        assert version_over(client.server.address, certificates.root) == "0.1.0"
        with pytest.raises(grpc.RpcError):
            version_over(client.server.address, first)


def test_a_client_without_tls_is_not_answered(api: ApiContext) -> None:
    with rpc_serving(rpc_context(api), certificates=Renewed()) as client, pytest.raises(grpc.RpcError) as failed:
        client.service.GetVersion(service_pb2.GetVersionRequest(), timeout=10)

    assert failed.value.code() is grpc.StatusCode.UNAVAILABLE
