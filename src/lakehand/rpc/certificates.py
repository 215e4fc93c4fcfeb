# SPDX-License-Identifier: Apache-2.0
"""TLS: new connections get the certificate that is current when they are made."""

from typing import Protocol

import grpc


class CertificateSource(Protocol):
    """Whoever keeps the certificate of the service."""

    @property
    def version(self) -> object:
        """Differs when the certificate was replaced."""

    def pem(self) -> tuple[bytes, bytes]:
        """The private key, and the chain of certificates."""


def credentials_of(certificates: CertificateSource) -> grpc.ServerCredentials:
    used = certificates.version

    def fetch() -> grpc.ServerCertificateConfiguration | None:
        """Called for every new connection; None keeps the present certificate."""
        nonlocal used
        version = certificates.version
        if version == used:
            return None
        config = configuration(certificates)
        used = version
        return config

    return grpc.dynamic_ssl_server_credentials(configuration(certificates), fetch)  # type: ignore[arg-type]


def configuration(certificates: CertificateSource) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration([certificates.pem()])
