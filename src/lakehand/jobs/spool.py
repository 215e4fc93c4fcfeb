# SPDX-License-Identifier: Apache-2.0
"""The driver's side of the spool folder, through which service and driver communicate without a port or a password.

The engine has the other side (``engines/spark/spool.py``; a test compares the two):

``driver.lock``         locked while the driver's JVM or its Python lives; in cluster mode, while it is submitted
``driver.json``         boot, beat, state, pid ...: rewritten every second; ``boot:beat`` is a heartbeat token
``exit-reason``         why the driver ended, if it ended itself
``stop``                the driver starts nothing new, finishes what runs, and exits
``inbox/HANDLE.json``   work, with ``heartbeat_token`` and ``time_to_live`` of its lease; whoever renames it takes it
``running/HANDLE.json`` work that was started, with its phase, task counts and notes
``done/HANDLE.json``    the outcome; waits until the service has read and deleted it
``cancel/HANDLE``       a request to stop it
``lease/*.json``        a renewal: handles, heartbeat_token, time_to_live
``logs/HANDLE.log``     what the attempt wrote
``locks/HANDLE.json``   the lock file that its job may hold, while it runs; ``locks/log``: see ``jobs/held_locks.py``

Every file appears by a rename, so it is complete. Names with a leading dot are drafts.
"""

import json
import os
import re
import shutil
import sys
from collections.abc import Iterable
from itertools import count
from pathlib import Path

from lakehand.jobs.work_items import Document, Refused, check_renewal, check_work_item, read_document

FOLDERS = ("inbox", "running", "done", "cancel", "lease", "logs", "locks")
SUFFIX = ".json"
HANDLE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,119}")


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
        progress = left.get("progress", {})
        message = "the driver died while it ran"
        self.finish(handle, {"handle": handle, "state": "lost", "progress": progress, "message": message})

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
