# SPDX-License-Identifier: Apache-2.0
"""The home of an instance: a private folder of this user. Any other is refused, with the command that fixes it."""

import logging
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote

from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from lakehand.app.settings import Settings
from lakehand.domain.errors import Invalid, Unavailable

log = logging.getLogger(__name__)
OWNER_ONLY = 0o077  # the umask: nothing for the group, nothing for others
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def prepare_home(home: Path) -> None:
    """Create the home if it is missing, and refuse one that other users can enter, own or replace."""
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        refuse_open_folder(home)
        refuse_open_parents(home, f"the home {home}")
        if not os.access(home, os.W_OK | os.X_OK):
            raise PermissionError(0, "it cannot be written, or its file system is read-only")
    except OSError as error:
        raise Unavailable(
            f"the home {home} cannot be used: {error.strerror}; give --home a folder that {user_name()} can write to"
        ) from error


def refuse_open_folder(home: Path) -> None:
    if home.is_symlink() and home.lstat().st_uid not in (0, os.geteuid()):
        raise Invalid(f"the home {home} is a link of another user: name the real folder with --home")
    found = home.stat()
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(0, "it is not a folder")
    if found.st_uid != os.geteuid():
        raise Invalid(
            f"the home {home} belongs to user {found.st_uid}, not to {user_name()}: run Lakehand as its owner, "
            f"give --home another folder, or: chown -R {os.geteuid()} {quote(str(home))}"
        )
    if found.st_mode & OWNER_ONLY:
        raise Invalid(
            f"the home {home} is open to other users (mode {stat.S_IMODE(found.st_mode):o}): "
            f"chmod 700 {quote(str(home))}"
        )


def refuse_open_parents(path: Path, name: str) -> None:
    """Whoever can rename a parent folder can replace everything below it."""
    for parent in path.resolve().parents:
        mode = parent.stat().st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            raise Invalid(
                f"{name} can be replaced by any user, because {parent} above it is writable: "
                f"chmod o-w {quote(str(parent))}, or choose another folder"
            )


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


def user_name() -> str:
    return f"user {os.geteuid()}"


def free_share(home: Path) -> float:
    """How much of the home's file system is free, from 0 to 1."""
    usage = shutil.disk_usage(home)
    return usage.free / usage.total if usage.total else 1.0
