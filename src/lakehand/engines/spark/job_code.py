# SPDX-License-Identifier: Apache-2.0
"""Which jobs this installation has: a driver that was started with others is replaced, and is given no new work."""

from functools import cache
from hashlib import sha256
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "jobs"


@cache
def job_code(folder: Path = FOLDER) -> str:
    """A checksum of the jobs' code; drivers load it when they need it, so that an upgrade would mix two versions."""
    digest = sha256()
    for file in sorted(folder.rglob("*.py")):
        digest.update(f"{file.relative_to(folder)}\0".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]
