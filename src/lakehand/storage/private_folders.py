# SPDX-License-Identifier: Apache-2.0
"""Folders that hold secrets: this user's alone, and not to be replaced by others."""

import os
import stat
from pathlib import Path
from shlex import quote

from lakehand.domain.errors import Invalid

OTHERS = 0o077  # the bits of group and others


def refuse_open_folder(folder: Path, name: str, instead: str) -> None:
    """``name``: what the folder is called in a refusal; ``instead``: how another one is chosen."""
    if folder.is_symlink() and folder.lstat().st_uid not in (0, os.geteuid()):
        raise Invalid(f"{name} is a link of another user: name the real folder, or {instead}")
    found = folder.stat()
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(0, "it is not a folder")
    if found.st_uid != os.geteuid():
        raise Invalid(
            f"{name} belongs to user {found.st_uid}, not to {user_name()}: run Lakehand as its owner, "
            f"{instead}, or: chown -R {os.geteuid()} {quote(str(folder))}"
        )
    if found.st_mode & OTHERS:
        raise Invalid(
            f"{name} is open to other users (mode {stat.S_IMODE(found.st_mode):o}): chmod 700 {quote(str(folder))}"
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


def identity_of(folder: Path) -> tuple[int, int]:
    """Differs as soon as another folder, or the mount of another storage, has the same path."""
    found = folder.stat()
    return found.st_dev, found.st_ino


def user_name() -> str:
    return f"user {os.geteuid()}"
