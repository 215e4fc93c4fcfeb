# SPDX-License-Identifier: Apache-2.0
"""The service's side of the spool folder; ``jobs/spool.py``, the driver's side, describes names and fields."""

import json
import os
import re
import stat
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count
from pathlib import Path
from threading import Lock
from typing import Any

from lakehand.domain.errors import Invalid
from lakehand.domain.operations import Handle
from lakehand.spi.engines import LeaseGrant, Work

FOLDERS = ("inbox", "running", "done", "cancel", "lease", "logs", "locks")
SUFFIX = ".json"
MOST_BYTES = 64 << 20
DRAFT_AGE = timedelta(hours=1)
HANDLE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,119}")

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoolView:
    """The content of the spool, listed in the order in which files move, so that none is missed."""

    waiting: frozenset[str] = frozenset()
    running: Mapping[str, Document] = field(default_factory=dict)
    done: Mapping[str, Document] = field(default_factory=dict)


class SpoolClient:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.inbox, self.running, self.done, self.cancel, self.lease, self.logs, self.locks = (
            root / name for name in FOLDERS
        )
        self.stop = root / "stop"
        self.exit_reason = root / "exit-reason"
        self.state = root / "driver.json"
        self.lock = root / "driver.lock"
        self.launch = root / "launch.lock"
        self._serial = count()
        self._reading = Lock()
        self._read: dict[Path, tuple[tuple[int, int, int], Document]] = {}

    def make(self) -> None:
        for folder in (self.root, *(self.root / name for name in FOLDERS)):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def holds(self, handle: Handle) -> bool:
        """Whether this handle was submitted before; checked in the order in which files move."""
        return any((folder / name_of(handle)).exists() for folder in (self.inbox, self.running, self.done))

    def put(self, work: Work, handle: Handle, grant: LeaseGrant) -> None:
        document = {
            "handle": handle,
            "job": work.job,
            "parameters": work.parameters,
            "table": work.table,
            "location": work.location,
            "queue": work.queue,
            "operation": work.operation,
            "at": time.time_ns(),
            "heartbeat_token": grant.heartbeat_token,
            "time_to_live": grant.time_to_live.total_seconds(),
        }
        self._write(self.inbox / name_of(handle), document, durable=True)

    def waiting_item(self, handle: Handle) -> Document:
        """The work as it was put, while it waits; else empty."""
        with self._reading:
            return self._document(self.inbox / name_of(handle))

    def time_to_live(self, handle: Handle) -> float:
        """Seconds of the lease with which this work was put; 0 when it is over."""
        with self._reading:
            item = self._document(self.inbox / name_of(handle)) or self._document(self.running / name_of(handle))
        return float(item.get("time_to_live") or 0.0)

    def renew(self, handles: Collection[Handle], grant: LeaseGrant) -> None:
        renewal = {
            "handles": list(handles),
            "heartbeat_token": grant.heartbeat_token,
            "time_to_live": grant.time_to_live.total_seconds(),
        }
        self._write(self.lease / f"{time.time_ns()}-{os.getpid()}-{next(self._serial)}{SUFFIX}", renewal)

    def cancel_work(self, handle: Handle) -> None:
        """Work that has not started is taken back here; running work is canceled by the driver."""
        is_taken = self.withdraw(handle, {"state": "canceled", "message": "canceled before it started"})
        if not is_taken and (self.running / name_of(handle)).exists():
            (self.cancel / handle).touch()

    def withdraw(self, handle: Handle, outcome: Document) -> bool:
        """Take back work that has not started, and give it this outcome. False if it is not waiting."""
        taken = self.inbox / f".{handle}.taken"
        try:
            (self.inbox / name_of(handle)).rename(taken)
        except FileNotFoundError:
            return False
        self._write(self.done / name_of(handle), {"handle": handle, **outcome}, durable=True)
        taken.unlink()
        return True

    def forget(self, handle: Handle, *, is_driver_dead: bool) -> None:
        """A driver writes the outcome, and then removes the file in ``running``: that may still be there."""
        name = name_of(handle)
        is_over = is_driver_dead or (self.done / name).exists()
        for folder in (self.inbox, *([self.running] if is_over else []), self.done):
            (folder / name).unlink(missing_ok=True)

    def has_work(self) -> bool:
        return any(not name.startswith(".") for name in names_in(self.inbox))

    def has_locks(self) -> bool:
        """Whether jobs that could hold a lock were running when the driver was last alive."""
        return any(name.endswith(SUFFIX) and not name.startswith(".") for name in names_in(self.locks))

    def view(self, handles: Collection[Handle]) -> SpoolView:
        """The state of these handles; unchanged files are not read again."""
        names = {name_of(handle) for handle in handles}
        with self._reading:
            waiting = frozenset(name[: -len(SUFFIX)] for name in names_in(self.inbox) & names)
            running = self._contents(self.running, names)
            done = self._contents(self.done, names)
        return SpoolView(waiting=waiting, running=running, done=done)

    def driver_state(self) -> Document:
        with self._reading:
            return self._document(self.state)

    def log_tail(self, handle: Handle, offset: int, limit: int) -> str:
        try:
            with (self.logs / f"{checked(handle)}.log").open("rb") as stream:
                stream.seek(max(offset, 0))
                return stream.read(limit).decode("ascii", errors="replace")
        except FileNotFoundError:
            return ""

    def clean_up(self, ages: Mapping[Path, timedelta], now: float) -> None:
        """Remove files that are older than their folder allows, and old drafts."""
        for folder in (self.inbox, self.running, self.done, self.cancel, self.lease, self.logs):
            for name in names_in(folder):
                age = DRAFT_AGE if name.startswith(".") else ages.get(folder)
                with suppress(OSError):  # for example a folder, which is not ours
                    if age is not None and (folder / name).lstat().st_mtime < now - age.total_seconds():
                        (folder / name).unlink()

    def _contents(self, folder: Path, names: Collection[str]) -> dict[str, Document]:
        there = names_in(folder)
        for path in [path for path in self._read if path.parent == folder and path.name not in there]:
            del self._read[path]
        return {name[: -len(SUFFIX)]: self._document(folder / name) for name in there.intersection(names)}

    def _document(self, file: Path) -> Document:
        """The content; read again only when the file was replaced."""
        try:
            found = file.lstat()
            seen = (found.st_ino, found.st_mtime_ns, found.st_size)
            known = self._read.get(file)
            if known is None or known[0] != seen:
                known = self._read[file] = (seen, read_document(file, found))
        except (FileNotFoundError, ValueError):
            return {}
        return known[1]

    def note_exit(self, reason: str) -> None:
        """The file says by being there that the driver is gone: it appears with its text."""
        self._replace(self.exit_reason, f"{reason}\n")

    def _write(self, file: Path, document: Document, *, durable: bool = False) -> None:
        self._replace(file, json.dumps(document), durable=durable)

    def _replace(self, file: Path, text: str, *, durable: bool = False) -> None:
        draft = file.with_name(f".{file.name}.{os.getpid()}.{next(self._serial)}")
        with draft.open("w", encoding="utf-8") as stream:
            stream.write(text)
            if durable:
                stream.flush()
                os.fsync(stream.fileno())
        draft.replace(file)


def read_document(file: Path, found: os.stat_result) -> Document:
    """Empty unless it is a JSON object in a regular file of bounded size; never blocks on a pipe."""
    if not stat.S_ISREG(found.st_mode) or found.st_size > MOST_BYTES:
        return {}
    content = json.loads(file.read_bytes())
    return content if isinstance(content, dict) else {}


def names_in(folder: Path) -> set[str]:
    return set(os.listdir(folder))  # noqa: PTH208


def checked(handle: Handle) -> Handle:
    if not HANDLE.fullmatch(handle):
        raise Invalid(f"{handle!r} is not a handle: use letters, digits, dot, dash and underscore")
    return handle


def name_of(handle: Handle) -> str:
    return checked(handle) + SUFFIX
