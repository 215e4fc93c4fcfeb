# SPDX-License-Identifier: Apache-2.0
"""Which ports the processes of a session listen on, read from the kernel's own tables, once or all the time."""

import ipaddress
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

LISTEN = "0A"
PACE = 0.02  # seconds between two looks: a server that lives for the time of one request is seen, too


def members_of(session: int) -> list[int]:
    """The live processes of a session."""
    found = []
    for name in os.listdir("/proc"):  # noqa: PTH208 - a tenth of the time of pathlib, fifty times a second
        if name.isdecimal():
            with suppress(OSError):
                if os.getsid(int(name)) == session:
                    found.append(int(name))
    return found


def listeners_of(session: int) -> dict[tuple[str, int], int]:
    """Address and port → process, for all that the processes of a session listen on."""
    owners: dict[str, int] = {}
    for pid in members_of(session):
        with suppress(OSError):
            owners |= dict.fromkeys(sockets_of(pid), pid)
    return {
        (address, port): owners[inode]
        for table in ("tcp", "tcp6")
        for address, port, inode in listening(Path("/proc/net", table))
        if inode in owners
    }


def sockets_of(pid: int) -> set[str]:
    inodes = set()
    folder = f"/proc/{pid}/fd"
    for name in os.listdir(folder):  # noqa: PTH208 - a JVM has hundreds
        with suppress(OSError):
            target = os.readlink(f"{folder}/{name}")  # noqa: PTH115
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
    return inodes


def listening(table: Path) -> list[tuple[str, int, str]]:
    rows = [line.split(None, 10) for line in table.read_text().splitlines()[1:] if f" {LISTEN} " in line]
    return [(*address_of(row[1]), row[9]) for row in rows if row[3] == LISTEN]


def address_of(text: str) -> tuple[str, int]:
    """The kernel writes addresses as words in the machine's own order of bytes."""
    words, port = text.split(":")
    raw = b"".join(bytes.fromhex(words[at : at + 8])[::-1] for at in range(0, len(words), 8))
    address = ipaddress.ip_address(raw)
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address), int(port, 16)


def is_loopback(address: str) -> bool:
    return ipaddress.ip_address(address).is_loopback


class PortWatch:
    """Looks again and again in a thread of its own, and remembers every address that was listened on."""

    def __init__(self, session: Callable[[], int | None]) -> None:
        self._session = session
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="port-watch", daemon=True)
        self.seen: set[tuple[str, int]] = set()
        self.looks = 0

    def __enter__(self) -> "PortWatch":
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._is_over.wait(PACE):
            session = self._session()
            if session is not None:
                found = listeners_of(session)
                self.looks += bool(found)
                self.seen.update(found)

    @property
    def open_to_others(self) -> set[tuple[str, int]]:
        return {(address, port) for address, port in self.seen if not is_loopback(address)}
