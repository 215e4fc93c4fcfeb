# SPDX-License-Identifier: Apache-2.0
"""A running service whose database goes away or whose disk is full: no false yes, not ready, and the log says why."""

import os
import resource
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.kit.polling import wait_for
from tests.kit.service import RunningService

pytestmark = pytest.mark.long
INSTANT = "20260101000000000"


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    (tmp_path / "lake").mkdir()
    return tmp_path / "lake"


@pytest.fixture
def start(tmp_path: Path, lake: Path) -> Iterator[Callable[..., RunningService]]:
    started: list[RunningService] = []

    def begin(database: Path | None = None) -> RunningService:
        url = f"sqlite:///{database}" if database else None
        started.append(RunningService(tmp_path / "home", lake, database=url))
        return started[-1].start()

    yield begin
    for service in started:
        service.end()


def notify(service: RunningService, table: Path) -> dict[str, Any]:
    """As Hudi's client does: whatever happens, the writer gets 200."""
    query = {"action": "REQUEST", "basepath": str(table), "table_name": table.name, "instant": INSTANT}
    answer = httpx.get(f"{service.url}/v1/hoodie/service/compact", params=query, timeout=30)
    assert answer.status_code == 200
    reply: dict[str, Any] = answer.json()
    return reply


def is_ready(service: RunningService) -> bool:
    return httpx.get(f"{service.url}/health/ready", timeout=30).status_code == 200


def register(service: RunningService, table: Path) -> int:
    body = {"location": str(table), "format": "hudi", "action_types": ["compaction"]}
    return httpx.post(f"{service.url}/api/v1/tables", json=body, timeout=30).status_code


def test_a_database_that_is_deleted_under_a_service_is_noticed(
    start: Callable[..., RunningService], lake: Path
) -> None:
    service = start()
    assert notify(service, lake / "before")["stored"] is True
    (service.home / "lakehand.db").unlink()

    assert notify(service, lake / "after")["stored"] is False
    assert register(service, lake / "after") == 503
    assert not is_ready(service)
    assert service.log().count("was deleted or replaced while it was open") >= 1
    assert not (service.home / "lakehand.db").exists()
    service.kill()
    service.start()
    assert notify(service, lake / "after")["stored"] is True


class SmallDisk:
    """Bounds what the service may write, and takes the bound away again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def fill(self, service: RunningService) -> None:
        """No file may grow any more: what a full disk is to SQLite, but for the number of the error."""
        assert service.process is not None
        sizes = [file.stat().st_size for file in (service.home / "serve.log", self.folder / "lakehand.db-wal")]
        resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, (max(sizes) + (64 << 10), resource.RLIM_INFINITY))

    def free(self, service: RunningService) -> None:
        assert service.process is not None
        resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


class SmallMount(SmallDisk):
    """A file system of a few megabytes, really full."""

    def fill(self, service: RunningService) -> None:
        with (self.folder / "filler").open("wb", buffering=0) as filler:
            for size in (1 << 16, 1 << 12, 1):
                try:
                    while filler.write(b"x" * size):
                        pass
                except OSError:
                    continue

    def free(self, service: RunningService) -> None:
        (self.folder / "filler").unlink()


@pytest.fixture(params=["limit", "mount"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SmallDisk]:
    folder = tmp_path / "disk"
    folder.mkdir(mode=0o700)
    if request.param == "limit":
        yield SmallDisk(folder)
        return
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m,mode=700", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("a small file system can be mounted by root only")
    yield SmallMount(folder)
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_service_whose_disk_is_full_says_so_and_recovers(
    start: Callable[..., RunningService], lake: Path, disk: SmallDisk
) -> None:
    service = start(disk.folder / "lakehand.db")
    assert notify(service, lake / "before")["stored"] is True
    disk.fill(service)

    refused = wait_for(lambda: first_refusal(service, lake), "a refusal", pace=0)
    assert "not stored, and not kept" in refused["message"]
    assert "registered again" in refused["message"]
    assert not is_ready(service)
    log = service.log()
    assert "the database does not accept writes" in log
    assert "free some space" in log or "disk I/O error" in log
    disk.free(service)
    wait_for(lambda: notify(service, lake / "later")["stored"], "a stored notification")
    wait_for(lambda: is_ready(service), "the service to be ready again")
    assert "the database accepts writes again" in service.log()


def first_refusal(service: RunningService, lake: Path) -> dict[str, Any] | None:
    for number in range(20):
        reply = notify(service, lake / f"t{number}-{os.urandom(4).hex()}")
        if not reply["stored"]:
            return reply
    return None
