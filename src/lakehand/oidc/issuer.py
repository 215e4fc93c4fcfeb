# SPDX-License-Identifier: Apache-2.0
"""Where an issuer publishes its keys, and which of its URLs are safe to use."""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from lakehand.domain.errors import Unavailable
from lakehand.oidc.documents import Documents

DISCOVERY = "/.well-known/openid-configuration"


@dataclass(frozen=True, slots=True, kw_only=True)
class Issuer:
    url: str  # exactly as its tokens name it
    documents: Documents
    jwks_url: str = ""  # empty: the issuer's own configuration names it

    def read_keys(self) -> Sequence[Any]:
        """Its JSON web keys, unchecked. Raises Unavailable with the reason."""
        url = self.jwks_url or self.find_jwks_url()
        keys = self.documents.read(url).get("keys")
        if not isinstance(keys, list):
            raise Unavailable(f"{url} names no keys")
        return keys

    def find_jwks_url(self) -> str:
        address = self.url.rstrip("/") + DISCOVERY
        found = self.documents.read(address)
        if found.get("issuer") != self.url:
            raise Unavailable(f"{address} is of another issuer: the setting must be spelled exactly as it is there")
        url = found.get("jwks_uri")
        if not isinstance(url, str) or not is_safe(url):
            raise Unavailable(f"{address} names no jwks_uri with https")
        return url


def is_safe(url: str) -> bool:
    """True for https, and for http on this machine: keys that somebody may exchange on their way prove nothing."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        return False
    return bool(host) and (parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host)))


def is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
