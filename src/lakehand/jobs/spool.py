# SPDX-License-Identifier: Apache-2.0
"""The driver's side of the spool folder, through which the service and the driver talk without a port or a password.

The engine writes and reads the other side of the same names (``engines/spark/spool.py``; a test holds both together):

``driver.lock``         locked for as long as the driver's JVM or its Python lives
``driver.json``         boot, beat, state, pid ...: written anew about every second; ``boot:beat`` is a mark
``last-words``          why the driver ended, when it ended by its own decision
``stop``                the driver takes nothing new, ends what runs, and exits
``inbox/HANDLE.json``   work, with ``mark`` and ``hold`` of its lease; whoever renames it away has it
``running/HANDLE.json`` work that was started, with its phase, task counts and notes
``done/HANDLE.json``    the outcome; waits until the service has read and deleted it
``cancel/HANDLE``       a wish to stop it
``lease/*.json``        a renewal: handles, mark, hold
``logs/HANDLE.log``     what the attempt wrote

Every file appears whole, by a rename. Names with a leading dot are on their way and of no meaning yet.
"""

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

FOLDERS = ("inbox", "running", "done", "cancel", "lease", "logs")
SUFFIX = ".json"

Document = dict[str, Any]


class Spool:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.inbox, self.running, self.done, self.cancel, self.lease, self.logs = (root / name for name in FOLDERS)
        self.stop = root / "stop"
        self.last_words = root / "last-words"
        self.state = root / "driver.json"
        self.lock = root / "driver.lock"
        self._serial = count()

    def waiting(self) -> list[str]:
        return [name[: -len(SUFFIX)] for name in visible(self.inbox)]

    def order(self, handle: str) -> Document | None:
        """What is asked for; None when it is gone, empty when it cannot be read."""
        try:
            order = json.loads((self.inbox / (handle + SUFFIX)).read_bytes())
        except FileNotFoundError:
            return None
        except ValueError:
            return {}
        return order if isinstance(order, dict) else {}

    def is_known(self, handle: str) -> bool:
        """Whether this handle was accepted before: then a second order for it is void."""
        return any((folder / (handle + SUFFIX)).exists() for folder in (self.running, self.done))

    def void(self, handle: str) -> None:
        (self.inbox / (handle + SUFFIX)).unlink(missing_ok=True)

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
        (self.running / (handle + SUFFIX)).unlink(missing_ok=True)

    def publish(self, state: Document) -> None:
        self._write(self.state, state)

    def take_cancels(self) -> list[str]:
        return [name for name in visible(self.cancel) if self._took(self.cancel / name)]

    def take_renewals(self) -> list[Document]:
        """Renewals, each read once. What cannot be read renews nothing."""
        found = []
        for name in visible(self.lease):
            with suppress(OSError, ValueError):
                found.append(json.loads((self.lease / name).read_bytes()))
            self._took(self.lease / name)
        return [renewal for renewal in found if isinstance(renewal, dict)]

    def clear(self) -> None:
        """At the start: wishes to a former driver are void, and what that one left running is lost."""
        self.take_cancels()
        self.take_renewals()
        for name in visible(self.running):
            self._lose(name[: -len(SUFFIX)])

    def _lose(self, handle: str) -> None:
        file = self.running / (handle + SUFFIX)
        if (self.done / (handle + SUFFIX)).exists():
            file.unlink(missing_ok=True)
            return
        try:
            left = json.loads(file.read_bytes())
        except ValueError:
            left = {}
        progress = left.get("progress", {}) if isinstance(left, dict) else {}
        message = "the driver died while it ran"
        self.finish(handle, {"handle": handle, "state": "lost", "progress": progress, "message": message})

    def _took(self, file: Path) -> bool:
        try:
            file.unlink()
        except FileNotFoundError:
            return False
        return True

    def _write(self, file: Path, document: Document, *, durable: bool = False) -> None:
        draft = file.with_name(f".{file.name}.{os.getpid()}.{next(self._serial)}")
        with draft.open("w", encoding="utf-8") as stream:
            json.dump(document, stream, default=str)
            if durable:
                stream.flush()
                os.fsync(stream.fileno())
        draft.replace(file)


def visible(folder: Path) -> Iterable[str]:
    return sorted(name for name in os.listdir(folder) if not name.startswith("."))  # noqa: PTH208


def flush(folder: Path) -> None:
    """Make renames in this folder survive a crash of the machine."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
