# SPDX-License-Identifier: Apache-2.0
"""Remembers the checksums of jars, so that a jar that did not change is not read again at each start."""

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path
from stat import S_IWGRP, S_IWOTH
from threading import Lock

BLOCK = 1 << 20
RECORD = "jar-sums.json"
REMEMBERED = 200  # files; the record does not grow forever


class JarSums:
    """Checksums by device, inode, size and times, in a file that only this user can write."""

    def __init__(self, record: Path | None = None) -> None:
        self._record = record  # None: remember nothing
        self._known = read_record(record)
        self._keeping = Lock()

    def of(self, file: Path) -> str:
        """The current SHA-256 of a file; computed only if the file may have changed."""
        key = identity(file.stat())
        known = self._known.get(key)
        if known is None:
            known = sha256_of(file)
            self._keep(key, known)
        return known

    def _keep(self, key: str, found: str) -> None:
        """Best effort: without the record the next start takes a second longer."""
        with self._keeping:
            self._known[key] = found
            if self._record is None:
                return
            recent = list((read_record(self._record) | self._known).items())[-REMEMBERED:]
            draft = self._record.with_name(f".{self._record.name}.{os.getpid()}")
            with suppress(OSError):
                draft.touch(mode=0o600)
                draft.write_text(json.dumps(dict(recent)), encoding="utf-8")
                draft.replace(self._record)


def identity(found: os.stat_result) -> str:
    """Who can write a file can also set its time back, but not the time of that change, which a link changes, too."""
    times = [found.st_mtime_ns] if is_private(found) else [found.st_mtime_ns, found.st_ctime_ns]
    return ":".join(str(part) for part in (found.st_dev, found.st_ino, found.st_size, *times))


def is_private(found: os.stat_result) -> bool:
    """Only this user (and root) can write it."""
    return found.st_uid == os.geteuid() and not found.st_mode & (S_IWGRP | S_IWOTH)


def record_in(folder: Path) -> Path | None:
    """The record that everything on this machine shares; None where others could write it."""
    try:
        return folder / RECORD if is_private(folder.stat()) else None
    except OSError:
        return None


def read_record(record: Path | None) -> dict[str, str]:
    try:
        known = json.loads(record.read_text(encoding="utf-8")) if record else {}
    except (OSError, ValueError):
        return {}
    return {str(key): str(value) for key, value in known.items()} if isinstance(known, dict) else {}


def sha256_of(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while block := stream.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()
