# SPDX-License-Identifier: Apache-2.0
"""Requests that are refused: under which host names we are asked, and how refusals are counted.

Requests under any other name are refused, against DNS rebinding. Refusals are logged at a bounded rate.
"""

import ipaddress
import logging
import re
import threading
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

log = logging.getLogger(__name__)
PAUSE = 10.0  # seconds between two log lines of one reason
SHOWN = 80  # characters of a foreign value that are shown
WILDCARDS = frozenset({"0.0.0.0", "::", ""})  # noqa: S104
MOST_KNOWN = 1000
_NAME = re.compile(r"(\*\.)?[a-z0-9_-]+(\.[a-z0-9_-]+)*")


class Refusals:
    """``on_refusal`` gets the reason and what was refused: a host, an origin, a client's address."""

    def __init__(self, on_refusal: Callable[[str, str], None], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._on_refusal = on_refusal
        self._clock = clock
        self._lock = threading.Lock()
        self._logged: dict[str, tuple[float, int]] = {}  # reason → last logged at, not logged since

    def note(self, reason: str, name: str, advice: str) -> None:
        shown = ascii(name[:SHOWN])[1:-1]
        self._on_refusal(reason, shown)
        more = self._not_logged(reason)
        if more is not None:
            log.warning(advice, extra={"refused": reason, "what": shown, "not_logged": more})

    def _not_logged(self, reason: str) -> int | None:
        """How many were refused since the last log line; None if it is too early for another."""
        now = self._clock()
        with self._lock:
            at, count = self._logged.get(reason, (now - PAUSE, 0))
            if now - at < PAUSE:
                self._logged[reason] = (at, count + 1)
                return None
            self._logged[reason] = (now, 0)
            return count


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
