# SPDX-License-Identifier: Apache-2.0
"""Where attacks happen: what is there before and after, to the last byte, and files that are old enough to go."""

import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

OLD = 10 * 86_400  # seconds: older than every retention that these tables are served with
FORMATS = ("hudi", "iceberg", "delta", "paimon", "lance")


def fingerprint(folder: Path, *, but: Path | None = None) -> dict[str, str]:
    """Every file, folder and link below a folder, with what it holds and when it was changed."""
    found: dict[str, str] = {}
    for root, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if Path(root, name) != but]
        for name in (*folders, *files):
            path = Path(root, name)
            found[str(path.relative_to(folder))] = content_of(path)
    return found


def content_of(path: Path) -> str:
    if path.is_symlink():
        return f"link to {path.readlink()}"
    if path.is_dir():
        return "folder"
    if not path.is_file():
        return "neither a file nor a folder"
    return f"{hashlib.sha256(path.read_bytes()).hexdigest()} {path.stat().st_mtime_ns}"


@contextmanager
def nothing_changes(top: Path) -> Iterator[None]:
    """Neither in the table nor outside of it, to the last byte."""
    before = fingerprint(top)
    yield
    assert fingerprint(top) == before


def make_old(folder: Path) -> None:
    then = time.time() - OLD
    for path in (*folder.rglob("*"), folder):
        os.utime(path, (then, then), follow_symlinks=False)
