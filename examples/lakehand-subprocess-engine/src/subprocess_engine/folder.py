# SPDX-License-Identifier: Apache-2.0
"""The folder of one work, through which the engine and the program that runs it talk.

``order.json``     the work; the folder appears with it, whole, by one rename
``lease.json``     when the lease ends, on the machine's clock
``lock``           locked by the program as long as it lives, which the kernel guarantees
``started``        made before the program is: from here on the work is never started again
``cancel``         a request to stop
``progress.json``  phase and notes
``outcome.json``   how it ended
"""

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from subprocess_engine import clocks

Document = Mapping[str, Any]


@dataclass(frozen=True)
class Folder:
    root: Path

    @property
    def is_there(self) -> bool:
        return self.root.is_dir()

    @property
    def is_started(self) -> bool:
        return (self.root / "started").exists()

    @property
    def is_canceled(self) -> bool:
        return (self.root / "cancel").exists()

    @property
    def lease_end(self) -> int:
        return int(self.read("lease").get("end", clocks.NEVER))

    def create(self, order: Document, lease_end: int) -> None:
        """Make the folder with all that belongs to it, or nothing when it is there already."""
        draft = Folder(self.root.with_name(f".{self.root.name}.{os.getpid()}.{clocks.now()}"))
        draft.root.mkdir(mode=0o700)
        draft.write("order", order)
        draft.write("lease", {"end": lease_end})
        try:
            draft.root.rename(self.root)
        except OSError:
            draft.remove()
            if not self.is_there:
                raise

    def lengthen(self, lease_end: int) -> None:
        """Renewals only ever lengthen a lease."""
        if lease_end > self.lease_end:
            self.write("lease", {"end": lease_end})

    def mark_started(self) -> None:
        (self.root / "started").touch(exist_ok=False)

    def ask_to_cancel(self) -> None:
        (self.root / "cancel").touch()

    @contextmanager
    def locked(self, kind: int = fcntl.LOCK_EX) -> Iterator[int | None]:
        """The lock's descriptor while nobody else has it, and None else."""
        with (self.root / "lock").open("a") as lock:
            try:
                fcntl.flock(lock, kind | fcntl.LOCK_NB)
            except BlockingIOError:
                yield None
            else:
                yield lock.fileno()

    def is_running(self) -> bool:
        with self.locked(fcntl.LOCK_SH) as lock:  # several may ask at once
            return lock is None

    def read(self, name: str) -> Document:
        """Empty when it is not there; every file appears whole."""
        try:
            found = json.loads((self.root / f"{name}.json").read_bytes())
        except FileNotFoundError:
            return {}
        return found if isinstance(found, dict) else {}

    def write(self, name: str, document: Document) -> None:
        draft = self.root / f".{name}.{os.getpid()}.{clocks.now()}"
        with draft.open("w", encoding="utf-8") as stream:
            json.dump(document, stream, default=str)
            stream.flush()
            os.fsync(stream.fileno())
        draft.replace(self.root / f"{name}.json")

    def remove(self) -> None:
        """Renamed before it is deleted: a reader sees all of it or nothing."""
        gone = self.root.with_name(f".{self.root.name}.gone.{clocks.now()}")
        self.root.rename(gone)
        for file in gone.iterdir():
            file.unlink(missing_ok=True)
        gone.rmdir()
