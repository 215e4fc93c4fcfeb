# SPDX-License-Identifier: Apache-2.0
"""The driver's side of the spool folder, through which the service and the driver talk without a port or a password.

The engine writes and reads the other side of the same names (``engines/spark/spool.py``; a test holds both together):

``driver.lock``         locked for as long as the driver's JVM or its Python lives
``driver.json``         boot, beat, state, pid ...: written anew about every second; ``boot:beat`` is a heartbeat token
``exit-reason``          why the driver ended, when it ended by its own decision
``stop``                the driver takes nothing new, ends what runs, and exits
``inbox/HANDLE.json``   work, with ``heartbeat_token`` and ``time_to_live`` of its lease; whoever renames it away has it
``running/HANDLE.json`` work that was started, with its phase, task counts and notes
``done/HANDLE.json``    the outcome; waits until the service has read and deleted it
``cancel/HANDLE``       a wish to stop it
``lease/*.json``        a renewal: handles, heartbeat_token, time_to_live
``logs/HANDLE.log``     what the attempt wrote

Every file appears whole, by a rename. Names with a leading dot are on their way and of no meaning yet.
"""

import json
import os
import re
import shutil
import sys
from collections.abc import Iterable
from itertools import count
from pathlib import Path

from lakehand.jobs.orders import Document, Refused, check_order, check_renewal, read_document

FOLDERS = ("inbox", "running", "done", "cancel", "lease", "logs")
SUFFIX = ".json"
HANDLE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,119}")


class Spool:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.inbox, self.running, self.done, self.cancel, self.lease, self.logs = (root / name for name in FOLDERS)
        self.stop = root / "stop"
        self.exit_reason = root / "exit-reason"
        self.state = root / "driver.json"
        self.lock = root / "driver.lock"
        self._serial = count()

    def waiting(self) -> list[str]:
        return [name[: -len(SUFFIX)] for name in visible(self.inbox) if is_handle(name.removesuffix(SUFFIX), name)]

    def strays(self) -> list[str]:
        """Names in the inbox that can be no order; nobody waits for an answer to them."""
        return [name for name in visible(self.inbox) if not is_handle(name.removesuffix(SUFFIX), name)]

    def remove_stray(self, name: str) -> None:
        discard(self.inbox / name)

    def order(self, handle: str) -> Document | None:
        """What is asked for; None when it is gone. Raises Refused when the driver cannot work with it."""
        try:
            order = read_document(self.inbox / (handle + SUFFIX))
        except FileNotFoundError:
            return None
        check_order(order, handle)
        return order

    def is_known(self, handle: str) -> bool:
        """Whether this handle was accepted before: then a second order for it is void."""
        return any((folder / (handle + SUFFIX)).exists() for folder in (self.running, self.done))

    def void(self, handle: str) -> None:
        discard(self.inbox / (handle + SUFFIX))

    def accept(self, handle: str) -> bool:
        """Make the work ours for good, durably; False when it was taken back before."""
        try:
            (self.inbox / (handle + SUFFIX)).rename(self.running / (handle + SUFFIX))
        except FileNotFoundError:
            return False
        for folder in (self.running, self.inbox):
            flush(folder)
        return True

    def tell(self, handle: str, progress: Document) -> None:
        self._write(self.running / (handle + SUFFIX), progress)

    def finish(self, handle: str, outcome: Document) -> None:
        self._write(self.done / (handle + SUFFIX), outcome, durable=True)
        discard(self.running / (handle + SUFFIX))

    def publish(self, state: Document) -> None:
        self._write(self.state, state)

    def take_cancels(self) -> list[str]:
        return [name for name in visible(self.cancel) if self._took(self.cancel / name)]

    def take_renewals(self) -> list[Document]:
        """Renewals, each read once. What cannot be read renews nothing."""
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
        """At the start: requests to a former driver are void, and what that one left running is lost."""
        self.take_cancels()
        self.take_renewals()
        for name in visible(self.running):
            self._lose(name[: -len(SUFFIX)])

    def _lose(self, handle: str) -> None:
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

    def _took(self, file: Path) -> bool:
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
