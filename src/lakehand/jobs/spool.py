# SPDX-License-Identifier: Apache-2.0
"""The driver's side of the spool folder, through which service and driver communicate without a port or a password.

The engine has the other side (``engines/spark/spool.py``; a test compares the two):

``driver.lock``         locked while the driver's JVM or its Python lives; in cluster mode, while it is submitted
``driver.json``         boot, beat, state, pid ...: rewritten every second; ``boot:beat`` is a heartbeat token
``exit-reason``         why the driver ended, if it ended itself
``stop``                the driver starts nothing new, finishes what runs, and exits
``inbox/HANDLE.json``   work, with ``heartbeat_token`` and ``time_to_live`` of its lease; whoever renames it takes it
``running/HANDLE.json`` work that was started, with its phase, task counts and notes, and the application that runs it
``done/HANDLE.json``    the outcome; waits until the service has read and deleted it
``cancel/HANDLE``       a request to stop it
``lease/*.json``        a renewal: handles, heartbeat_token, time_to_live
``logs/HANDLE.log``     what the attempt wrote
``locks/HANDLE.json``   the lock file that its job may hold, while it runs; ``locks/log``: see ``jobs/held_locks.py``

Every file appears by a rename, so it is complete. Names with a leading dot are drafts. The driver accepts regular files
of bounded size with the fields that work needs.
"""

import json
import math
import os
import re
import shutil
import stat
import sys
from collections.abc import Iterable
from itertools import count
from pathlib import Path
from typing import Any

MOST_BYTES = 16 << 20
LONGEST_LEASE = 36500 * 86400.0  # seconds: as long as the service's own setting may be
LONGEST_TOKEN = 100
TEXTS = ("job", "table", "location", "queue")

Document = dict[str, Any]

FOLDERS = ("inbox", "running", "done", "cancel", "lease", "logs", "locks")
SUFFIX = ".json"
KEPT = ("progress", "application", "application_url")  # of work whose driver died
HANDLE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,119}")


class Refused(Exception):
    """A file in the spool is not what the driver can work with."""


def read_document(file: Path) -> Document:
    """The JSON object in a file. Raises Refused for anything else, FileNotFoundError when the file is gone."""
    content = read_bounded(file)
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise Refused(f"it is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise Refused("it is not a JSON object")
    return document


def read_bounded(file: Path) -> bytes:
    """Never follows a link, waits for a pipe or reads more than the bound."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise Refused(f"it cannot be opened as a regular file: {error.strerror}") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise Refused("it is not a regular file")
    with os.fdopen(descriptor, "rb") as stream:
        content = stream.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise Refused(f"it is larger than {MOST_BYTES} bytes")
    return content


def check_work_item(item: Document, handle: str) -> None:
    """Raise Refused unless the driver can start this work and count its lease."""
    if item.get("handle") != handle:
        raise Refused("its handle is not the name of its file")
    for name in TEXTS:
        if not isinstance(item.get(name, ""), str | None):
            raise Refused(f"its {name} is not text")
    if not item.get("job"):
        raise Refused("it names no job")
    if not isinstance(item.get("parameters", {}), dict | None):
        raise Refused("its parameters are not an object")
    if not is_number(item.get("at", 0)):
        raise Refused("its time is not a number")
    check_lease(item)


def check_renewal(renewal: Document) -> None:
    handles = renewal.get("handles")
    if not isinstance(handles, list) or not all(isinstance(handle, str) for handle in handles):
        raise Refused("its handles are not a list of texts")
    check_lease(renewal)


def check_lease(document: Document) -> None:
    token, time_to_live = document.get("heartbeat_token"), document.get("time_to_live")
    if token is not None and not (isinstance(token, str) and len(token) <= LONGEST_TOKEN):
        raise Refused("its heartbeat token is not a short text")
    if time_to_live is None or not (is_number(time_to_live) and 0 <= time_to_live <= LONGEST_LEASE):
        raise Refused(f"its time to live is not a number of seconds from 0 to {LONGEST_LEASE:.0f}")


def is_number(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)


class Spool:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.inbox, self.running, self.done, self.cancel, self.lease, self.logs, self.locks = (
            root / name for name in FOLDERS
        )
        self.stop = root / "stop"
        self.exit_reason = root / "exit-reason"
        self.state = root / "driver.json"
        self.lock = root / "driver.lock"
        self._serial = count()

    def waiting(self) -> list[str]:
        return [name[: -len(SUFFIX)] for name in visible(self.inbox) if is_handle(name.removesuffix(SUFFIX), name)]

    def strays(self) -> list[str]:
        """Names in the inbox that cannot be work items. Nobody waits for their outcome."""
        return [name for name in visible(self.inbox) if not is_handle(name.removesuffix(SUFFIX), name)]

    def remove_stray(self, name: str) -> None:
        discard(self.inbox / name)

    def work_item(self, handle: str) -> Document | None:
        """None when it is gone. Raises Refused when the driver cannot work with it."""
        try:
            item = read_document(self.inbox / (handle + SUFFIX))
        except FileNotFoundError:
            return None
        check_work_item(item, handle)
        return item

    def is_known(self, handle: str) -> bool:
        """Whether this handle was accepted before: a second work item for it is void."""
        return any((folder / (handle + SUFFIX)).exists() for folder in (self.running, self.done))

    def void(self, handle: str) -> None:
        discard(self.inbox / (handle + SUFFIX))

    def accept(self, handle: str) -> bool:
        """Take the work, durably. False when it was withdrawn before."""
        try:
            (self.inbox / (handle + SUFFIX)).rename(self.running / (handle + SUFFIX))
        except FileNotFoundError:
            return False
        for folder in (self.running, self.inbox):
            flush(folder)
        return True

    def publish_progress(self, handle: str, progress: Document) -> None:
        self._write(self.running / (handle + SUFFIX), progress)

    def finish(self, handle: str, outcome: Document) -> None:
        self._write(self.done / (handle + SUFFIX), outcome, durable=True)
        discard(self.running / (handle + SUFFIX))
        discard(self.locks / (handle + SUFFIX))

    def use_lock(self, handle: str, path: str) -> None:
        self._write(self.locks / (handle + SUFFIX), {"path": path}, durable=True)

    def publish_state(self, state: Document) -> None:
        self._write(self.state, state)

    def take_cancels(self) -> list[str]:
        return [name for name in visible(self.cancel) if self._take(self.cancel / name)]

    def take_renewals(self) -> list[Document]:
        """Renewals, each read once. One that cannot be read renews nothing."""
        found = []
        for name in visible(self.lease):
            try:
                renewal = read_document(self.lease / name)
                check_renewal(renewal)
                found.append(renewal)
            except FileNotFoundError:
                continue
            except Refused as refusal:
                sys.stderr.write(f"lakehand: {str(self.lease / name)!r} renews nothing: {refusal}\n")
            discard(self.lease / name)
        return found

    def clear(self) -> None:
        """Called at start: requests to an earlier driver are void, and what that driver left running is lost."""
        self.take_cancels()
        self.take_renewals()
        for name in visible(self.running):
            self._report_lost(name[: -len(SUFFIX)])

    def _report_lost(self, handle: str) -> None:
        file = self.running / (handle + SUFFIX)
        if (self.done / (handle + SUFFIX)).exists():
            discard(file)
            return
        try:
            left = read_document(file)
        except (Refused, FileNotFoundError):
            left = {}
        kept = {"progress": {}, **{name: left[name] for name in KEPT if name in left}}
        self.finish(handle, {"handle": handle, "state": "lost", "message": "the driver died while it ran", **kept})

    def _take(self, file: Path) -> bool:
        if not os.path.lexists(file):
            return False
        discard(file)
        return True

    def _write(self, file: Path, document: Document, *, durable: bool = False) -> None:
        draft = file.with_name(f".{file.name}.{os.getpid()}.{next(self._serial)}")
        with draft.open("w", encoding="utf-8") as stream:
            json.dump(document, stream, default=str)
            if durable:
                stream.flush()
                os.fsync(stream.fileno())
        draft.replace(file)


def is_handle(handle: str, name: str) -> bool:
    return name.endswith(SUFFIX) and HANDLE.fullmatch(handle) is not None


def discard(file: Path) -> None:
    """Remove whatever is there under this name: a file, a link, a pipe, or even a folder."""
    if file.is_dir() and not file.is_symlink():
        shutil.rmtree(file, ignore_errors=True)
    else:
        file.unlink(missing_ok=True)


def visible(folder: Path) -> Iterable[str]:
    return sorted(name for name in os.listdir(folder) if not name.startswith("."))  # noqa: PTH208


def flush(folder: Path) -> None:
    """Make renames in this folder survive a crash of the machine."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
