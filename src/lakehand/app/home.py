# SPDX-License-Identifier: Apache-2.0
"""The home of an instance: a folder of this user alone. Any other is refused, with the command that fixes it."""

import logging
import os
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
    """Make the home if it is not there, and refuse one that others may enter, own or replace."""
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        refuse_foreign_link(home)
        refuse_open_folder(home)
        refuse_open_parents(home, f"the home {home}")
        refuse_unwritable(home)
    except OSError as error:
        raise Unavailable(
            f"the home {home} cannot be used: {error.strerror}; give --home a folder that {user_name()} may write to"
        ) from error


def refuse_unwritable(home: Path) -> None:
    if not os.access(home, os.W_OK | os.X_OK):
        raise PermissionError(0, "it cannot be written, or its file system is read-only")


def refuse_foreign_link(home: Path) -> None:
    if home.is_symlink() and home.lstat().st_uid not in (0, os.geteuid()):
        raise Invalid(f"the home {home} is a link that another user made: name the real folder with --home")


def refuse_open_folder(home: Path) -> None:
    found = home.stat()
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(0, "it is no folder")
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


def refuse_open_parents(place: Path, name: str) -> None:
    """Whoever may rename a folder above a place can put another one there."""
    for parent in place.resolve().parents:
        mode = parent.stat().st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            raise Invalid(
                f"{name} can be replaced by any user, who may write to {parent} above it: "
                f"chmod o-w {quote(str(parent))}, or choose another place"
            )


def prepare_database_file(url: str) -> None:
    """A SQLite file is made for its owner alone; one that others may write to, or own, is refused."""
    file = sqlite_file(url)
    if file is None:
        return
    try:
        refuse_open_parents(file, f"the database {file}")
        os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        found = file.stat()
    except OSError as error:
        raise Unavailable(
            f"the database {file} cannot be opened: {error.strerror}; give {user_name()} the right to write to it and "
            "to its folder, or name another one with --database"
        ) from error
    if found.st_uid != os.geteuid() or found.st_mode & OTHERS_WRITE:
        raise Invalid(
            f"the database {file} belongs to another user, or others may write to it: "
            f"chown {os.geteuid()} {quote(str(file))} && chmod 600 {quote(str(file))}"
        )
    if found.st_mode & OWNER_ONLY:
        file.chmod(0o600)
        log.warning("the database could be read by other users; it no longer can", extra={"file": str(file)})


def sqlite_file(url: str) -> Path | None:
    try:
        known = make_url(url)
    except ArgumentError:
        return None
    if known.get_backend_name() != "sqlite" or known.database in (None, "", ":memory:"):
        return None
    return Path(str(known.database)).absolute()


def own_paths(settings: Settings) -> tuple[str, ...]:
    """What Lakehand itself lives in: no table may hold it, or lie in it."""
    file = sqlite_file(settings.database_url)
    places = (settings.home, settings.jar_folder, *([file] if file else []))
    return tuple(dict.fromkeys(os.path.realpath(place) for place in places))


@contextmanager
def owner_only_files() -> Iterator[int]:
    """New files of this process are for its owner alone. Gives the former umask: files of tables keep to that one."""
    before = os.umask(OWNER_ONLY)
    try:
        yield before
    finally:
        os.umask(before)


def user_name() -> str:
    return f"user {os.geteuid()}"
