# SPDX-License-Identifier: Apache-2.0
"""The host names of this service. Requests under any other name are refused, against DNS rebinding."""

import ipaddress
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

WILDCARDS = frozenset({"0.0.0.0", "::", ""})  # noqa: S104
MOST_KNOWN = 1000
_NAME = re.compile(r"(\*\.)?[a-z0-9_-]+(\.[a-z0-9_-]+)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosts:
    """Loopback names, the host that the service listens on, and further names; ``*.suffix`` means all below it.

    An address in a ``Host`` header cannot be rebound, so a service that listens on all addresses accepts any.
    """

    names: frozenset[str] = frozenset()
    any_address: bool = False
    _known: set[bytes] = field(default_factory=set, repr=False)  # accepted headers: on the hot path

    @classmethod
    def of(cls, listens_on: str, own_names: Iterable[str], allowed: Collection[str]) -> "Hosts":
        """``own_names`` are the machine's names, accepted if the service listens on all addresses."""
        is_wide = listens_on in WILDCARDS
        names = {*allowed, *(own_names if is_wide else [listens_on])}
        return cls(names=frozenset(plain(name) for name in names if name), any_address=is_wide)

    def admits(self, header: bytes) -> bool:
        if header in self._known:
            return True
        if not self.is_ours(host_of(header.decode("latin-1"))):
            return False
        if len(self._known) >= MOST_KNOWN:
            self._known.clear()
        self._known.add(header)
        return True

    def is_ours(self, host: str) -> bool:
        if host == "localhost" or host.endswith(".localhost") or host in self.names:
            return True
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return any(f"*{host[at:]}" in self.names for at, sign in enumerate(host) if sign == ".")
        return address.is_loopback or (self.any_address and not address.is_unspecified)


def host_of(header: str) -> str:
    """The normalised host of ``host:port``; empty without one."""
    text = header.strip()
    if text.startswith("["):
        inside, bracket, _ = text[1:].partition("]")
        return plain(inside) if bracket else ""
    return plain(text.partition(":")[0])


def plain(host: str) -> str:
    return host.strip().lower().removesuffix(".")


def checked_name(text: str) -> str:
    """A name or address for ``allowed_hosts``; raises ValueError if it could never match, or matches everything."""
    name = plain(text).removeprefix("[").removesuffix("]")
    if not _NAME.fullmatch(name):
        try:
            ipaddress.ip_address(name)
        except ValueError:
            wanted = "a name or address without scheme and port, or *.example.com"
            raise ValueError(f"{text[:80]!a} is not a host: {wanted}") from None
    return name
