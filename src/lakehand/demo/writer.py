# SPDX-License-Identifier: Apache-2.0
"""Runs the demo's writer program in a separate process and sends it commands as JSON lines."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

from lakehand.demo.service import QUICK_JAVA, DemoFailed, wait_or_kill
from lakehand.engines.spark.command import JAVA_OPTIONS, format_properties
from lakehand.engines.spark.jars import spark_home
from lakehand.engines.spark.java import Java

PROGRAM = "lakehand.demo.writer_program"
MARK = "\x1e"  # starts each answer, as in writer_program.py


class WriterProcess:
    """A user's PySpark job: writes and reads on command, one command at a time."""

    def __init__(
        self, *, home: Path, lake: Mapping[str, str], formats: Sequence[str], jars: Sequence[Path], java: Java
    ) -> None:
        """``lake``: how Spark reaches the tables."""
        home.mkdir(parents=True)
        self.log = home / "writer.log"
        self.lock = Lock()
        conf = {**own_conf(home), **format_properties(formats), **lake}
        conf["spark.driver.extraClassPath"] = os.pathsep.join(str(jar) for jar in jars)
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", PROGRAM],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, cwd=home,
                env=environment(conf, java), start_new_session=True,
            )  # fmt: skip

    def ready(self) -> dict[str, Any]:
        return self.answer()

    def send(self, **command: Any) -> dict[str, Any]:
        assert self.process.stdin is not None
        with self.lock:
            self.process.stdin.write(json.dumps(command) + "\n")
            self.process.stdin.flush()
            return self.answer()

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(MARK):
                return dict(json.loads(line[1:]))
        raise DemoFailed(f"the PySpark writer ended early; the end of {self.log} says: {self.log_tail()}")

    def log_tail(self) -> str:
        lines = [line.strip() for line in self.log.read_text(errors="replace").splitlines() if line.strip()]
        return " | ".join(lines[-3:])[-600:]

    def stop(self) -> None:
        """Spark's JVM ends with its Python process."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        wait_or_kill(self.process)


def own_conf(home: Path) -> dict[str, str]:
    return {
        "spark.app.name": "demo-writer",
        "spark.master": "local[2]",
        "spark.driver.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": " ".join([QUICK_JAVA, *JAVA_OPTIONS]),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.local.dir": str(home / "scratch"),
        "spark.sql.warehouse.dir": str(home / "warehouse"),
    }


def environment(conf: Mapping[str, str], java: Java) -> Mapping[str, str]:
    arguments = [word for key, value in conf.items() for word in ("--conf", f'"{key}={value}"')]
    return {
        **os.environ,
        "SPARK_HOME": str(spark_home()),
        "JAVA_HOME": str(java.home),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": " ".join([*arguments, "pyspark-shell"]),
    }
