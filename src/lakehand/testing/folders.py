# SPDX-License-Identifier: Apache-2.0
"""Folders of tables on this machine: watched for writes, and spoiled on purpose."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def untouched(folder: Path) -> Iterator[None]:
    """Fails when a file of the folder is changed, added or removed meanwhile."""
    before = file_states(folder)
    yield
    after = file_states(folder)
    changed = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    assert not changed, f"reading wrote to {folder}: {changed[:10]}"


def file_states(folder: Path) -> dict[str, tuple[int, int]]:
    """Size and time of the last change of everything in a folder."""
    found = ((path, path.lstat()) for path in (folder, *folder.rglob("*")))
    return {str(path.relative_to(folder)): (stat.st_size, stat.st_mtime_ns) for path, stat in found}


def unreadable_folder(beside: Path) -> Path:
    """A folder that is there and cannot be read, not even by root: a link to itself."""
    loop = beside.with_name(f"{beside.name}-unreadable")
    if not loop.is_symlink():
        loop.symlink_to(loop)
    return loop
