# SPDX-License-Identifier: Apache-2.0
"""A real Spark standalone cluster on loopback, from the installed pyspark: a master, workers, and a secret."""

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import psutil

from lakehand.engines.spark.command import as_properties_file
from lakehand.engines.spark.jars import spark_home
from lakehand.engines.spark.java import java_home
from tests.kit.polling import wait_for
from tests.kit.ports import quiet_port

HOST = "127.0.0.1"
CORES, MEMORY = 8, "4g"  # what a worker offers, whatever the machine has
DEPLOY = "org.apache.spark.deploy"


class SparkCluster:
    """Each daemon leads a session of its own, with its executors: to kill one is to lose a machine."""

    def __init__(self, home: Path, workers: int = 2) -> None:
        self.home = home
        self.secret = uuid4().hex
        self.port, self.page = quiet_port(), quiet_port()
        self.settings = home / "cluster.properties"
        recovery = {"recoveryMode": "FILESYSTEM", "recoveryDirectory": str(home / "recovery")}
        properties = {**self.authentication, **{f"spark.deploy.{key}": value for key, value in recovery.items()}}
        self.settings.touch(mode=0o600)
        self.settings.write_text(as_properties_file(properties))
        self.master_process: subprocess.Popen[bytes] | None = None
        self.workers: list[subprocess.Popen[bytes]] = []
        self.wanted = workers

    @property
    def master(self) -> str:
        return f"spark://{HOST}:{self.port}"

    @property
    def authentication(self) -> dict[str, str]:
        return {"spark.authenticate": "true", "spark.authenticate.secret": self.secret}

    def start(self) -> "SparkCluster":
        self.start_master()
        self.repair()
        return self

    def repair(self) -> None:
        """As many live workers as it should have."""
        for _ in range(self.wanted - sum(one.poll() is None for one in self.workers)):
            self.add_worker()
        self.wait_for_workers(self.wanted)

    def start_master(self) -> None:
        ports = ["--port", str(self.port), "--webui-port", str(self.page)]
        self.master_process = self._start("master.Master", *ports)

    def add_worker(self) -> None:
        folder = self.home / f"worker-{len(self.workers)}"
        offers = ["--cores", str(CORES), "--memory", MEMORY, "--work-dir", str(folder)]
        self.workers.append(self._start("worker.Worker", *offers, self.master, "--webui-port", str(quiet_port())))

    def wait_for_workers(self, count: int) -> None:
        wait_for(lambda: self.state().get("aliveworkers") == count, f"{count} workers")

    def state(self) -> dict[str, Any]:
        """What the master says; empty while it does not answer."""
        try:
            found: dict[str, Any] = httpx.get(f"http://{HOST}:{self.page}/json/", timeout=10).json()
        except (httpx.HTTPError, ValueError):
            return {}
        return found

    def applications(self) -> set[str]:
        return {str(one["name"]) for one in self.state().get("activeapps", [])}

    def cores_in_use(self) -> int | None:
        """Those that live executors have; None while the master does not answer."""
        return self.state().get("coresused")

    def kill_worker(self, number: int) -> None:
        kill(self.workers[number])

    def kill_master(self) -> None:
        assert self.master_process is not None
        kill(self.master_process)

    def end(self) -> None:
        for one in [*self.workers, *([self.master_process] if self.master_process else [])]:
            kill(one)

    def _start(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        home = spark_home()
        command = [str(home / "bin" / "spark-class"), f"{DEPLOY}.{program}", "--host", HOST, *arguments]
        here = {"SPARK_LOCAL_IP": HOST, "SPARK_LOCAL_HOSTNAME": HOST, "SPARK_PUBLIC_DNS": HOST}
        paths = {"SPARK_HOME": str(home), "JAVA_HOME": str(java_home().home), "SPARK_DAEMON_MEMORY": "512m"}
        with (self.home / "daemons.log").open("ab") as log:
            return subprocess.Popen(
                [*command, "--properties-file", str(self.settings)],
                env={**os.environ, **here, **paths}, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip


def kill(daemon: subprocess.Popen[bytes]) -> None:
    """kill -9 of the daemon and whatever it started, containers in sessions of their own among it."""
    if daemon.poll() is not None:
        return
    members = [psutil.Process(daemon.pid), *psutil.Process(daemon.pid).children(recursive=True)]
    os.killpg(daemon.pid, signal.SIGKILL)
    daemon.wait()
    for one in members:
        with suppress(psutil.NoSuchProcess):
            one.kill()
    psutil.wait_procs(members, timeout=30)
