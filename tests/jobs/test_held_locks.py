# SPDX-License-Identifier: Apache-2.0
"""The lock of a driver that died is released by the next one, and nobody else's ever is."""

import os
from pathlib import Path

import pytest

from lakehand.jobs.held_locks import release_left
from lakehand.jobs.spool import FOLDERS, Spool

HANDLE = "7-1"
TAKEN = 1_800_000_000_000  # milliseconds
STARTED, ENDED = "State change started", "State change ended"


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    for name in FOLDERS:
        (tmp_path / "spool" / name).mkdir(parents=True)
    return Spool(tmp_path / "spool")


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    """As Hudi makes it: empty, with the checksum of an empty file."""
    file = tmp_path / "locks" / "lock"
    file.parent.mkdir()
    file.touch()
    (file.parent / ".lock.crc").touch()
    return file


def died(spool: Spool, lock: Path, *lines: str, age: int = 0) -> None:
    """A driver that had logged these lines; the lock's file is this many milliseconds older than its being taken."""
    spool.use_lock(HANDLE, str(lock))
    (spool.locks / "log").write_text("".join(f"{line}\n" for line in lines))
    nanoseconds = (TAKEN - age) * 1_000_000
    os.utime(lock, ns=(nanoseconds, nanoseconds))


@pytest.mark.parametrize("inside", [[], [f"{TAKEN + 1} lakehand-7-1 {STARTED}", f"{TAKEN + 2} lakehand-7-1 {ENDED}"]])
def test_a_lock_that_its_holder_took_with_it_is_released(inside: list[str], spool: Spool, lock: Path) -> None:
    """Also after a commit under it, whose client has a lock of its own."""
    died(
        spool,
        lock,
        f"{TAKEN - 900} lakehand-7-1 {STARTED}",
        f"{TAKEN - 500} lakehand-7-1 {ENDED}",
        f"{TAKEN} lakehand-7-1 {STARTED}",
        *inside,
    )

    release_left(spool.locks)

    assert list(lock.parent.iterdir()) == []
    assert list(spool.locks.iterdir()) == [], "and it is done once"


@pytest.mark.parametrize(
    ("lines", "age"),
    [
        ([], 0),
        ([f"{TAKEN} lakehand-7-1 {STARTED}", f"{TAKEN + 10} lakehand-7-1 {ENDED}"], 0),
        ([f"{TAKEN} lakehand-8-1 {STARTED}"], 0),
        ([f"{TAKEN} lakehand-7-1 State change starting"], 0),
        ([f"{TAKEN} lakehand-7-1 {STARTED}"], -1),
        (["not a line", f"{TAKEN}"], 0),
    ],
    ids=["never taken", "released", "taken by another job", "waiting for it", "a younger file", "no line"],
)
def test_the_lock_of_somebody_else_is_left_alone(lines: list[str], age: int, spool: Spool, lock: Path) -> None:
    died(spool, lock, *lines, age=age)

    release_left(spool.locks)

    assert lock.exists()
    assert list(spool.locks.iterdir()) == []


def test_a_folder_that_became_a_link_to_another_lock_is_not_followed(spool: Spool, lock: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").symlink_to(lock.parent)
    died(spool, tmp_path / "mine" / "lock", f"{TAKEN} lakehand-7-1 {STARTED}")

    release_left(spool.locks)

    assert lock.exists()


def test_a_job_that_ended_leaves_nothing_to_release(spool: Spool, lock: Path) -> None:
    died(spool, lock, f"{TAKEN} lakehand-7-1 {STARTED}")

    spool.finish(HANDLE, {"state": "succeeded"})
    release_left(spool.locks)

    assert lock.exists()
