# SPDX-License-Identifier: Apache-2.0
"""Notices when the files of an open SQLite database were deleted or replaced: what is stored then will be lost."""

import logging
import os
import time
from threading import Lock

from lakehand.domain.errors import Unavailable

log = logging.getLogger(__name__)
PAUSE = 0.2  # seconds between two checks while there is nothing but reading
FileId = tuple[int, int]  # device and inode


class DatabaseLost(Unavailable):
    """The database's file is not the one that is open."""


class SqliteFiles:
    """Compares the files at the database's path with those that this process has open: a few microseconds."""

    def __init__(self, path: str) -> None:
        self._main = path
        self._beside = (f"{path}-wal", f"{path}-shm")
        self._open: dict[str, FileId] = {}  # the files that the connections have open, as far as they are known
        self._connections = 0
        self._is_lost = False
        self._next_check = 0.0
        self._lock = Lock()

    def connected(self) -> None:
        """A connection was opened: all of them must have opened the same file."""
        found = file_id(self._main)
        with self._lock:
            self._connections += 1
            if found is not None:
                self._open.setdefault(self._main, found)

    def disconnected(self) -> None:
        """SQLite removes the files beside the database with its last connection, and the next one makes new ones."""
        with self._lock:
            self._connections -= 1
            if self._connections <= 0:
                self._connections = 0
                for name in self._beside:
                    self._open.pop(name, None)

    def settle(self) -> None:
        """After a transaction, while its connection is open: the files beside the database are there now."""
        if len(self._open) <= len(self._beside):
            with self._lock:
                for name in self._beside:
                    if name not in self._open and (found := file_id(name)) is not None:
                        self._open[name] = found

    def check_sometimes(self) -> None:
        """For reading: now and then, and always while something is wrong."""
        if self._is_lost or time.monotonic() >= self._next_check:
            self.check()

    def check(self) -> None:
        """Raise DatabaseLost unless all files are where they were when they were opened."""
        self._next_check = time.monotonic() + PAUSE
        missing = next((name for name, opened in list(self._open.items()) if file_id(name) != opened), None)
        if missing is None:
            if self._is_lost:
                self._is_lost = False
                log.warning("the database's file is back", extra={"file": self._main})
            return
        message = (
            f"{missing} was deleted or replaced while it was open, so nothing can be stored for good: stop the "
            f"service, put {self._main} back from a backup or remove it to begin anew, and start the service again"
        )
        if not self._is_lost:
            self._is_lost = True
            log.error(message, extra={"file": missing})
        raise DatabaseLost(message)


def file_id(name: str) -> FileId | None:
    try:
        found = os.stat(name)  # noqa: PTH116 - asked for every transaction
    except OSError:
        return None
    return found.st_dev, found.st_ino
