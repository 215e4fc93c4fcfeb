# SPDX-License-Identifier: Apache-2.0
"""The home of an instance: a private folder of this user, with the name of the instance and a lock for one process.

Any other folder is refused, with the command that fixes it.
"""

import fcntl
import logging
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import IO

from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from lakehand.app.settings import Settings
from lakehand.domain.errors import Conflict, Invalid, Unavailable
from lakehand.domain.operations import InstanceId
from lakehand.storage.private_folders import refuse_open_folder, refuse_open_parents, user_name

log = logging.getLogger(__name__)
OWNER_ONLY = 0o077  # the umask: nothing for the group, nothing for others
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def prepare_home(home: Path) -> None:
    """Create the home if it is missing, and refuse one that other users can enter, own or replace."""
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        refuse_open_folder(home, f"the home {home}", "give --home another folder")
        refuse_open_parents(home, f"the home {home}")
        if not os.access(home, os.W_OK | os.X_OK):
            raise PermissionError(0, "it cannot be written, or its file system is read-only")
    except OSError as error:
        raise Unavailable(
            f"the home {home} cannot be used: {error.strerror}; give --home a folder that {user_name()} can write to"
        ) from error


def prepare_database_file(url: str) -> None:
    """Create a private SQLite file; refuse one that other users own or can write to."""
    file = sqlite_file(url)
    if file is None:
        return
    try:
        refuse_open_parents(file, f"the database {file}")
        os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        found = file.stat()
    except OSError as error:
        raise Unavailable(
            f"the database {file} cannot be opened: {error.strerror}; make it and its folder writable "
            f"for {user_name()}, or name another one with --database"
        ) from error
    if found.st_uid != os.geteuid() or found.st_mode & OTHERS_WRITE:
        raise Invalid(
            f"the database {file} belongs to another user, or others can write to it: "
            f"chown {os.geteuid()} {quote(str(file))} && chmod 600 {quote(str(file))}"
        )
    if found.st_mode & OWNER_ONLY:
        file.chmod(0o600)
        log.warning("the database was readable by other users; made it private", extra={"file": str(file)})


def sqlite_file(url: str) -> Path | None:
    try:
        known = make_url(url)
    except ArgumentError:
        return None
    if known.get_backend_name() != "sqlite" or known.database in (None, "", ":memory:"):
        return None
    return Path(str(known.database)).absolute()


def own_paths(settings: Settings) -> tuple[str, ...]:
    """Lakehand's own folders and files: no table may contain them or lie in them."""
    file = sqlite_file(settings.database_url)
    paths = (settings.home, settings.jar_folder, *([file] if file else []))
    return tuple(dict.fromkeys(os.path.realpath(path) for path in paths))


@contextmanager
def owner_only_files() -> Iterator[int]:
    """Create private files only. Yields the former umask, which files of tables keep."""
    before = os.umask(OWNER_ONLY)
    try:
        yield before
    finally:
        os.umask(before)


def free_share(home: Path) -> float:
    """How much of the home's file system is free, from 0 to 1."""
    usage = shutil.disk_usage(home)
    return usage.free / usage.total if usage.total else 1.0


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
