# SPDX-License-Identifier: Apache-2.0
"""Remembers which jars had the right SHA-256, so that a file is read again only when it may be another one."""

import hashlib
import json
from contextlib import suppress
from pathlib import Path

BLOCK = 1 << 20


class JarSums:
    """The sums of files by device, inode, size and time of change, kept in a file of the engine's own home."""

    def __init__(self, record: Path | None = None) -> None:
        self._record = record  # None: nothing is remembered
        self._known = read_record(record)

    def of(self, file: Path) -> str:
        """The SHA-256 of a file, as it is now."""
        found = file.stat()
        identity = f"{found.st_dev}:{found.st_ino}:{found.st_size}:{found.st_mtime_ns}"
        known = self._known.get(identity)
        if known is None:
            known = self._known[identity] = sha256_of(file)
            self._keep()
        return known

    def _keep(self) -> None:
        """Best effort: without the record the next start takes a second longer."""
        if self._record is None:
            return
        draft = self._record.with_name(f".{self._record.name}.new")
        with suppress(OSError):
            draft.write_text(json.dumps(self._known), encoding="utf-8")
            draft.replace(self._record)


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
