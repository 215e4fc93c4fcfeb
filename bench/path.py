# SPDX-License-Identifier: Apache-2.0
"""What one operation costs in our own code: calls, functions, files, package crossings and transactions.

``python -m bench.path hudi`` follows one Hudi notification until its compaction has SUCCEEDED, ``delta`` one change
that nobody announced until its optimize is verified. The loops are run by hand, once each, so that waiting is not
counted; a first operation warms the driver up. The driver is a process of its own and is not counted. ``--show`` lists
the functions.
"""

import asyncio
import sqlite3
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

import httpx
import pyarrow as pa
from deltalake import write_deltalake
from pydantic import SecretStr

import lakehand
from bench.fleet_tables import copies, instant_of, write_template
from lakehand.app import server
from lakehand.app.settings import Settings
from lakehand.app.wiring import Service, build, migrated
from lakehand.domain.operations import Handle
from lakehand.domain.tables import Format, TableSpec
from lakehand.rest import build_app
from lakehand.spi import EngineState
from lakehand.store.database import Database

ROOT = str(Path(lakehand.__file__).parent) + "/"
SECONDS = 300.0  # for the driver to start and the job to run
SMALL_FILES = 60


@dataclass
class Trace:
    calls: int = 0
    functions: set[tuple[str, str, int]] = field(default_factory=set)
    crossings: int = 0
    reads: int = 0
    writes: int = 0
    is_on: bool = False

    def start(self) -> None:
        threading.setprofile(self.profile)
        sys.setprofile(self.profile)
        for name in ("read", "write"):
            setattr(Database, name, self.count_calls(f"{name}s", getattr(Database, name)))

    def profile(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event != "call" or not self.is_on or not code.co_filename.startswith(ROOT) or code.co_name[0] == "<":
            return  # "<": comprehensions and lambdas, which are parts of their function
        self.calls += 1
        self.functions.add((code.co_filename, code.co_name, code.co_firstlineno))
        caller = frame.f_back
        while caller is not None and not caller.f_code.co_filename.startswith(ROOT):
            caller = caller.f_back
        self.crossings += caller is not None and package(caller.f_code.co_filename) != package(code.co_filename)

    def count_calls(self, name: str, inner: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            setattr(self, name, getattr(self, name) + self.is_on)
            return inner(*args, **kwargs)

        return run

    def show(self) -> None:
        """Every function, in the order of its file."""
        for file, name, line in sorted(self.functions, key=lambda one: (one[0], one[2])):
            sys.stdout.write(f"{file.removeprefix(ROOT)}:{line} {name}\n")

    def __str__(self) -> str:
        files = {file for file, _, _ in self.functions}
        return (
            f"{self.calls} calls, {len(self.functions)} functions, {len(files)} files, "
            f"{self.crossings} package crossings, {self.reads} reads, {self.writes} writes"
        )


def package(file: str) -> str:
    return file.removeprefix(ROOT).split("/")[0]


def follow_hudi(service: Service, table: Path, trace: Trace) -> None:
    asyncio.run(notify(service, table, instant_of(table), trace))
    run_until_succeeded(service, table, trace)


def follow_delta(service: Service, table: Path, trace: Trace) -> None:
    rows = pa.table({"id": list(range(1000))})
    write_deltalake(str(table), rows)
    spec = TableSpec(location=str(table), format=Format("delta"), table_name=table.name,
                     action_types=frozenset(service.plugins.actions_of(Format("delta"))))  # fmt: skip
    service.store.tables.add(spec, now=service.store.clock.now())
    step(service, "coordinator")
    for _ in range(SMALL_FILES):
        write_deltalake(str(table), rows, mode="append")
    OperationRows(service).make_probes_due()
    trace.is_on = True
    step(service, "prober")
    run_until_succeeded(service, table, trace)


def run_until_succeeded(service: Service, table: Path, trace: Trace) -> None:
    """Each step is traced until the database shows what it led to; the waiting for Spark is not."""
    step(service, "coordinator")
    rows = OperationRows(service)
    rows.wait_for(table, lambda status: True)
    step(service, "dispatcher")
    handle = rows.wait_for(table, lambda status: status != "pending")[1]
    trace.is_on = False
    wait_for_engine(service, Handle(handle))
    trace.is_on = True
    step(service, "monitor")
    status, _ = rows.wait_for(table, lambda status: status not in ("submitted", "running"))
    trace.is_on = False
    if status != "succeeded":
        raise SystemExit(f"the operation of {table} is {status}")


class OperationRows:
    """The operations, read past our own code, which is being counted."""

    def __init__(self, service: Service) -> None:
        self.file = service.settings.home / "lakehand.db"

    def wait_for(self, table: Path, is_reached: Callable[[str], bool]) -> tuple[str, str]:
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            for status, handle in self.of(table):
                if is_reached(status):
                    return status, handle or ""
            time.sleep(0.05)
        raise SystemExit(f"the operation of {table} did not go on: {self.of(table)}")

    def of(self, table: Path) -> list[tuple[str, str]]:
        query = (
            "SELECT o.status, o.handle FROM operation o JOIN tbl t ON t.id = o.tbl_id"
            " WHERE t.base_path = ? ORDER BY o.handle IS NULL, o.operation_id DESC"
        )
        with closing(sqlite3.connect(self.file)) as connection:
            return connection.execute(query, [str(table)]).fetchall()

    def make_probes_due(self) -> None:
        with closing(sqlite3.connect(self.file)) as connection:
            connection.execute("UPDATE tbl SET probe_due = 0")
            connection.commit()


def wait_for_engine(service: Service, handle: Handle) -> None:
    """The monitor gives a cold driver its first heartbeat token. Of a job that has ended it would complete the
    operation, uncounted, and let the engine forget the job: from its start to its end, only the engine is asked."""
    engine = service.plugins.engine("spark")
    deadline = time.monotonic() + SECONDS
    while not (state := engine.status([handle])[handle].state).is_over:
        if time.monotonic() > deadline:
            raise SystemExit(f"{handle} did not end")
        engine.tend()
        if state is not EngineState.RUNNING:
            step(service, "monitor")
        time.sleep(0.05)


def step(service: Service, *names: str) -> None:
    for name in names:
        if name in service.loops:
            service.loops[name].run_once()


async def notify(service: Service, table: Path, instant: str, trace: Trace) -> None:
    """Building and starting the API is not a part of the path; answering is."""
    app = build_app(server.api_context(service))
    query = {"action": "REQUEST", "basepath": str(table), "table_name": table.name, "instant": instant}
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            trace.is_on = True
            answer = await client.get(
                "/v1/hoodie/service/compact", params={**query, "username": "default", "queue": "default"}
            )
    if not answer.json()["stored"]:
        raise SystemExit(f"the notification was not stored: {answer.text}")


def main(kind: str, *, show: bool) -> None:
    trace, warm_up = Trace(), Trace()
    trace.start()
    with TemporaryDirectory(prefix="lakehand-path-", ignore_cleanup_errors=True) as name:
        home, lake = Path(name) / "home", Path(name) / "lake"
        home.mkdir(mode=0o700)
        lake.mkdir()
        write_template(Path(name) / "template")
        first, second = copies(Path(name) / "template", lake, 2)
        url = SecretStr(f"sqlite:///{home / 'lakehand.db'}")
        settings = Settings(home=home, database=url, warehouses=[str(lake)])
        service = build(settings, migrated(settings))
        try:
            follow_hudi(service, first, warm_up)
            follow_hudi(service, second, trace) if kind == "hudi" else follow_delta(service, lake / "events", trace)
        finally:
            service.settings = settings.model_copy(update={"stop_driver": True})
            service.stop()
    sys.stdout.write(f"{kind}: {trace}\n")
    if show:
        trace.show()


if __name__ == "__main__":
    main(sys.argv[1], show="--show" in sys.argv)
