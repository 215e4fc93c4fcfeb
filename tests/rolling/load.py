# SPDX-License-Identifier: Apache-2.0
"""Writers that never stop: they plan, notify whichever instance answers, and remember what they committed."""

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from itertools import cycle
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from tests.kit.service import TLS
from tests.rest.parts import wire

FIRST = datetime(2026, 11, 14, 19, tzinfo=timezone.utc)
PACE = 0.4  # seconds between two commits


class Writers:
    """Plans in ``hudi`` and commits in ``delta`` tables, in turn."""

    def __init__(self, addresses: Callable[[], Sequence[str]], hudi: Sequence[Path], delta: Sequence[Path]) -> None:
        self.addresses, self.hudi, self.delta = addresses, hudi, delta
        self.planned: dict[Path, list[str]] = {path: [] for path in hudi}
        self.notified, self.failures = 0, list[str]()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self.write, name="writers")
        for path in hudi:
            for folder in ("plans", "effects"):
                (path / folder).mkdir(parents=True)
        for path in delta:
            write_deltalake(str(path), pa.table({"id": [0]}))

    def __enter__(self) -> "Writers":
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._ending.set()
        self._thread.join()

    def write(self) -> None:
        tables = cycle([(path, self.plan) for path in self.hudi] + [(path, self.commit) for path in self.delta])
        for number, (path, commit) in enumerate(tables):
            if self._ending.wait(PACE):
                return
            self.notify(*commit(path, number))

    def plan(self, path: Path, number: int) -> tuple[str, str, Any]:
        instant = f"{FIRST + timedelta(seconds=number):%Y%m%d%H%M%S}000"
        (path / "plans" / instant).touch()
        self.planned[path].append(instant)
        return "GET", wire(basepath=str(path), table_name=path.name, instant=instant), None

    def commit(self, path: Path, number: int) -> tuple[str, str, Any]:
        write_deltalake(str(path), pa.table({"id": [number]}), mode="append")
        event = {
            "specversion": "1.0", "type": "dev.lakehand.table.committed", "source": "writer", "id": str(number),
            "data": {"location": str(path)},
        }  # fmt: skip
        return "POST", "/api/v1/commits", event

    def notify(self, method: str, target: str, body: Any) -> None:
        """As through a load balancer: if an instance hangs up, the next one is asked."""
        for url in self.addresses():
            with suppress(httpx.TransportError):
                answer = httpx.request(method, url + target, json=body, timeout=30, verify=TLS)
                if answer.is_success and answer.json()["stored"]:
                    self.notified += 1
                    return
                self.failures.append(f"{answer.status_code} {answer.text}")
        self.failures.append(f"no instance answered {target}")


def live_files(table: Path) -> set[str]:
    return {Path(uri).name for uri in DeltaTable(str(table)).file_uris()}
