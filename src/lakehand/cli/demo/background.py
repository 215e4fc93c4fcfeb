# SPDX-License-Identifier: Apache-2.0
"""Starts what the demo needs beside itself: the service as its own process, and the engine's driver early."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from lakehand.cli.problems import CommandFailed
from lakehand.engines.spark.engine import SparkEngine
from lakehand.spi import EngineContext
from lakehand.writer import is_ready

PATIENCE = 60.0  # seconds for the service to answer
# The thorough compiler pays off after minutes, and needs until then what the work could have. Without it Java reserves
# 48 MB for compiled code, which five formats in one process fill, and then fails: it gets what it has with it.
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
SHORT_LIFE = {"conf.spark.driver.extraJavaOptions": QUICK_JAVA}


class ServiceProcess:
    """`lakehand serve` on a free port, with a home of its own and no more formats than it needs."""

    def __init__(self, home: Path, warehouse: Path, *, without: Sequence[str] = ()) -> None:
        home.mkdir(parents=True, mode=0o700)
        self.home = home
        self.log = home / "service.log"
        command = ["serve", "--home", str(home), "--port", "0", "--warehouse", str(warehouse), "--log-format", "json"]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "lakehand.cli", *command],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=home, env=environment(without),
                start_new_session=True,
            )  # fmt: skip

    def url(self) -> str:
        """Where it answers, as soon as it does."""
        deadline = time.monotonic() + PATIENCE
        address = self.home / "address.json"
        while time.monotonic() < deadline:
            if address.exists():
                url = str(json.loads(address.read_text())["url"])
                if is_ready(url):
                    return url
            if self.process.poll() is not None:
                raise CommandFailed(f"the service ended early; {self.log} says: {self.log.read_text()[-600:].strip()}")
            time.sleep(0.1)
        raise CommandFailed(f"the service did not answer within {PATIENCE:.0f} s; see {self.log}")

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def environment(without: Sequence[str]) -> dict[str, str]:
    """The demo's service has its own settings, whatever the person's are; only the jars are shared."""
    kept = {
        key: value for key, value in os.environ.items() if not key.startswith("LAKEHAND_") or key == "LAKEHAND_JARS"
    }
    off = {name: {"enabled": False} for name in without}
    return {**kept, "LAKEHAND_PLUGINS": json.dumps({"table-formats": off, "process-factories": off})} if off else kept


def engine_of(home: Path, formats: Sequence[str]) -> SparkEngine:
    """The service's own engine: started early to save time, and surely ended when all is over."""
    engine = SparkEngine()
    folder = home / "engines" / SparkEngine.name
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    engine.open(SHORT_LIFE, EngineContext(home=folder, formats=tuple(sorted(formats))))
    return engine


def end(engine: SparkEngine) -> None:
    engine.stop(timedelta(seconds=5))
