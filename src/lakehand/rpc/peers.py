# SPDX-License-Identifier: Apache-2.0
"""Where a call came from."""

from collections.abc import Iterable
from urllib.parse import unquote


def address_of(peer: str) -> str:
    """The address alone, from ``ipv4:127.0.0.1:5000`` or ``ipv6:[::1]:5000``, maybe percent-encoded."""
    kind, _, rest = unquote(peer).partition(":")
    if kind not in ("ipv4", "ipv6"):
        return "unknown"
    return rest.rpartition(":")[0].strip("[]") or "unknown"


def secret_of(metadata: Iterable[tuple[str, str | bytes]] | None) -> str:
    """The token of the metadata ``authorization: Bearer TOKEN``; empty without one."""
    for key, value in metadata or ():
        if key == "authorization" and isinstance(value, str):
            scheme, _, secret = value.partition(" ")
            return secret.strip() if scheme.lower() == "bearer" else ""
    return ""
