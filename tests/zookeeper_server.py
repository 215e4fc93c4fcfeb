# SPDX-License-Identifier: Apache-2.0
"""A real ZooKeeper for tests: the one among Spark's own jars, on a free port of this machine."""

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lakehand.engines.spark.jars import spark_home
from lakehand.engines.spark.java import java_home
from tests.kit.polling import wait_for
from tests.kit.ports import quiet_port

PROGRAM = "org.apache.zookeeper.server.ZooKeeperServerMain"


@contextmanager
def zookeeper(folder: Path) -> Iterator[int]:
    """Its port."""
    port, settings = quiet_port(), folder / "zookeeper.cfg"
    said = {"dataDir": folder / "zookeeper", "clientPort": port, "clientPortAddress": "127.0.0.1", "tickTime": 2000}
    settings.write_text("".join(f"{key}={value}\n" for key, value in said.items()))
    command = [str(java_home().program), "-Xmx200m", "-Dzookeeper.admin.enableServer=false"]
    command += ["-cp", f"{spark_home()}/jars/*", PROGRAM, str(settings)]
    with (folder / "zookeeper.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=folder)
    try:
        wait_for(lambda: answers(port, process), f"ZooKeeper to answer: {folder / 'zookeeper.log'}")
        yield port
    finally:
        process.kill()
        process.wait()


def answers(port: int, process: "subprocess.Popen[bytes]") -> bool:
    assert process.poll() is None, "ZooKeeper ended at its start"
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError:
        return False
    return True
