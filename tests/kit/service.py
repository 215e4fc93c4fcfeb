# SPDX-License-Identifier: Apache-2.0
"""A real service in a process of its own, for tests that start, kill and restart it."""

import json
import os
import signal
import ssl
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import psutil

from tests.kit.polling import wait_for

TLS = ssl.create_default_context()  # reading the certificates takes longer than a request: once is enough


class RunningService:
    """``lakehand serve`` with its own home; the home outlives the process."""

    program = "lakehand.cli"  # the module that serves
    names_warehouse = True  # else its lakehand.toml does

    def __init__(
        self, home: Path, warehouse: Path, *, database: str | None = None, bucket: str = "", **settings: str
    ) -> None:
        self.home = home
        self.bucket = bucket  # served in place of the folder
        self.warehouse = warehouse
        self.database = database
        self.settings = {f"LAKEHAND_{key.upper()}": value for key, value in settings.items()}
        self.process: subprocess.Popen[bytes] | None = None
        self.url = ""

    def start(self) -> "RunningService":
        self.home.mkdir(parents=True, exist_ok=True, mode=0o700)
        (self.home / "address.json").unlink(missing_ok=True)
        command = [sys.executable, "-m", self.program, "serve", "--home", str(self.home), "--port", "0"]
        command += ["--warehouse", self.bucket or str(self.warehouse)] if self.names_warehouse else []
        command += ["--database", self.database] if self.database else []
        with (self.home / "serve.log").open("ab") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env={**os.environ, **self.settings}
            )
        self.url = wait_for(self.address, f"{self.home.name} to be ready")
        return self

    def address(self) -> str | None:
        assert self.process is not None
        assert self.process.poll() is None, f"the service ended: {self.log()[-3000:]}"
        file = self.home / "address.json"
        return str(json.loads(file.read_text())["url"]) if file.exists() else None

    def kill(self) -> None:
        """kill -9, and wait until the process is gone."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """SIGTERM, as an operator would."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def end(self) -> None:
        """Leave nothing behind."""
        if self.process is not None and self.process.poll() is None:
            self.kill()
        self.kill_driver()
        self.kill_starting_driver()

    @property
    def spool(self) -> Path:
        return self.home / "engines" / "spark" / "spool"

    def driver(self) -> psutil.Process | None:
        """The driver's Python, if it lives. Its number may be another process's by now: the command line tells."""
        try:
            child = psutil.Process(int(self.driver_facts()["pid"]))
            return child if str(self.spool.absolute()) in child.cmdline() else None
        except (KeyError, ValueError, psutil.Error):
            return None

    def driver_facts(self) -> dict[str, Any]:
        """What the driver says of itself; empty while there is none."""
        try:
            facts: dict[str, Any] = json.loads((self.spool / "driver.json").read_text())
        except (OSError, ValueError):
            return {}
        return facts

    def kill_driver(self) -> None:
        """kill -9 of the driver's whole process group: Python and the JVM at once."""
        driver = self.driver()
        if driver is None:
            return
        group = os.getpgid(driver.pid)
        members = [p for p in psutil.process_iter() if group_of(p) == group]
        os.killpg(group, signal.SIGKILL)
        psutil.wait_procs(members, timeout=30)

    def kill_starting_driver(self) -> None:
        """One that has said nothing of itself yet: the lock has its number, and its command line our folder."""
        if self.spool.is_dir():
            from lakehand.engines.spark.process import DriverProcess
            from lakehand.engines.spark.spool import SpoolClient

            DriverProcess(SpoolClient(self.spool.absolute()), self.spool.parent).kill()

    def log(self) -> str:
        return (self.home / "serve.log").read_text()

    def get(self, path: str, **parameters: Any) -> Any:
        return httpx.get(self.url + path, params=parameters, timeout=30, verify=TLS).raise_for_status().json()

    def post(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        return httpx.post(self.url + path, json=body or {}, timeout=30, verify=TLS).raise_for_status().json()

    def add_table(self, path: Path | str, *actions: str, **values: Any) -> int:
        body = {"location": str(path), "action_types": list(actions) or ["compaction"], **values}
        return int(self.post("/api/v1/tables", body)["id"])

    def operations(self, **filters: Any) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        cursor: dict[str, str] = {}
        while True:
            page = self.get("/api/v1/operations", limit=200, **filters, **cursor)
            found += page["items"]
            if not page["next"]:
                return found
            cursor = {"cursor": page["next"]}

    def operation(self, path: Path | str, action: str = "compaction") -> dict[str, Any] | None:
        found = self.operations(location=str(path), action=action)
        return found[0] if found else None

    def wait_status(self, path: Path | str, *statuses: str, action: str = "compaction") -> dict[str, Any]:
        def reached() -> dict[str, Any] | None:
            operation = self.operation(path, action)
            return operation if operation and operation["status"] in statuses else None

        return wait_for(reached, f"{action} of {path} to be {' or '.join(statuses)}")


def group_of(process: psutil.Process) -> int | None:
    try:
        return os.getpgid(process.pid)
    except (OSError, psutil.Error):
        return None
