# SPDX-License-Identifier: Apache-2.0
"""The service of the demo as a separate process, its formats, and its Spark driver, which is started early."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lakehand.app.plugins import load_kind
from lakehand.domain.errors import LakehandError
from lakehand.engines.spark.engine import SparkEngine
from lakehand.spi import EngineContext, TableFormat
from lakehand.writer import is_ready

SHOWN = ("hudi", "iceberg", "delta", "paimon", "lance")
NOTHING: Mapping[str, Any] = {}
START_TIMEOUT = 60.0  # seconds for the service to answer
# The optimising compiler pays off only after minutes. Without it Java reserves 48 MB for compiled code, which five
# formats fill, and then fails: keep the usual size. The serial collector starts faster.
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"
SHORT_LIFE = {"conf.spark.driver.extraJavaOptions": QUICK_JAVA}


class DemoFailed(LakehandError):
    """The demo cannot go on."""

    code = "demo-failed"


class ServiceProcess:
    """`lakehand serve` on a free port, with its own home and only the formats that are shown."""

    def __init__(
        self, home: Path, warehouse: str, *, without: Sequence[str] = (), settings: Mapping[str, Any] = NOTHING
    ) -> None:
        home.mkdir(parents=True, mode=0o700)
        self.home = home
        self.log = home / "service.log"
        command = ["serve", "--home", str(home), "--port", "0", "--warehouse", warehouse, "--log-format", "json"]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "lakehand.cli", *command],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=home, env=environment(without, settings),
                start_new_session=True,
            )  # fmt: skip

    def url(self) -> str:
        """Its address, as soon as it answers."""
        deadline = time.monotonic() + START_TIMEOUT
        address = self.home / "address.json"
        while time.monotonic() < deadline:
            if address.exists():
                url = str(json.loads(address.read_text())["url"])
                if is_ready(url):
                    return url
            if self.process.poll() is not None:
                raise DemoFailed(f"the service ended early; {self.log} says: {self.log.read_text()[-600:].strip()}")
            time.sleep(0.1)
        raise DemoFailed(f"the service did not answer within {START_TIMEOUT:.0f} s; see {self.log}")

    def stop(self) -> None:
        self.process.terminate()
        wait_or_kill(self.process)


def wait_or_kill(process: "subprocess.Popen[Any]") -> None:
    try:
        process.wait(timeout=15)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def environment(without: Sequence[str], settings: Mapping[str, Any]) -> dict[str, str]:
    """Without the user's own settings, except for the folder of jars."""
    kept = {
        key: value for key, value in os.environ.items() if not key.startswith("LAKEHAND_") or key == "LAKEHAND_JARS"
    }
    off = {name: {"enabled": False} for name in without}
    given = {**settings, **({"plugins": {"table-formats": off, "process-factories": off}} if off else {})}
    return {**kept, **{f"LAKEHAND_{name.upper()}": json.dumps(value) for name, value in given.items()}}


def open_engine(home: Path, context: Callable[[Path], EngineContext]) -> SparkEngine:
    """The engine of the service, opened here to start its driver early and to stop it in the end."""
    engine = SparkEngine()
    folder = home / "engines" / SparkEngine.name
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    engine.open(SHORT_LIFE, context(folder))
    return engine


def format_readers(wanted: Sequence[str], storage: Mapping[str, str] = NOTHING) -> Mapping[str, TableFormat]:
    """The readers of the wanted formats, or of all; in the order of the demo."""
    if unknown := [name for name in wanted if name not in SHOWN]:
        raise DemoFailed(f"--formats {unknown[0]}: the demo has {', '.join(SHOWN)}")
    loaded = load_kind("table-format", {}, lambda plugin, config: plugin.open({**storage, **config.properties}))
    known = {one.report.name: one for one in loaded}
    for name in wanted or SHOWN:
        if name not in known or not known[name].plugin:
            why = known[name].report.reason if name in known else "it is not installed"
            raise DemoFailed(f"the format {name} cannot be shown: {why}")
    return {name: known[name].plugin for name in SHOWN if name in (wanted or SHOWN)}
