# SPDX-License-Identifier: Apache-2.0
"""The name of this instance, kept in its home, and a lock that allows one process per home."""

import fcntl
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from random import random
from typing import IO

from lakehand.app.home import prepare_home
from lakehand.domain.errors import Conflict, Unavailable
from lakehand.domain.operations import Handle, InstanceId, Operation


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    id: InstanceId
    lock: IO[str]  # held while this process is alive

    def release(self) -> None:
        self.lock.close()


def take_identity(home: Path) -> Identity:
    """The same name after a restart, so that the instance finds its operations. One process per home."""
    prepare_home(home)
    lock = open_lock(home)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise Conflict(f"another Lakehand runs with the home {home}: stop it, or use another --home") from None
    lock.seek(0)
    name = lock.read().strip() or f"{os.uname().nodename[:40]}-{secrets.token_hex(4)}"
    lock.seek(0)
    lock.truncate()
    lock.write(name + "\n")
    lock.flush()
    os.fsync(lock.fileno())
    return Identity(id=InstanceId(name), lock=lock)


def open_lock(home: Path) -> IO[str]:
    file = home / "instance.lock"
    try:
        return file.open("a+")
    except OSError as error:
        raise Unavailable(f"{file} cannot be written: {error.strerror}; give --home another folder") from error


class SystemIdSource:
    """Fresh handles, and random numbers for jitter."""

    def handle(self, operation: Operation) -> Handle:
        return Handle(f"op-{operation.id}-{operation.run_times + 1}-{secrets.token_hex(4)}")

    def random(self) -> float:
        return random()
