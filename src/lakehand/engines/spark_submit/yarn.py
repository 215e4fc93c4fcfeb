# SPDX-License-Identifier: Apache-2.0
"""Questions to YARN, asked with its own client: that knows the ResourceManagers, their fail-over and Kerberos."""

import os
import subprocess
from collections.abc import Callable, Mapping

from lakehand.domain.errors import Unavailable

CLIENT = "org.apache.hadoop.yarn.client.cli.ApplicationCLI"
TAG = "lakehand"
NOT_OVER = "NEW,NEW_SAVING,SUBMITTED,ACCEPTED,RUNNING"
TIMEOUT = 120.0  # seconds
TAIL = 500

RunClient = Callable[..., str]


class Yarn:
    """Applications are named by their handles. Each question starts a JVM for some seconds: do not ask often."""

    def __init__(self, run: RunClient | None = None) -> None:
        self._run = run or run_client

    def running(self) -> Mapping[str, str]:
        """The ids of our applications that wait or run, by handle; of all instances."""
        return parse_list(self._run("application", "-list", "-appTags", TAG, "-appStates", NOT_OVER))

    def kill(self, handle: str) -> None:
        if application := self.running().get(handle):
            self._run("application", "-kill", application)


def run_client(*arguments: str) -> str:
    """What the client prints. Raises Unavailable."""
    # Imported here, because both are also programs (`python -m`) and must not be loaded with the package.
    from lakehand.engines.spark.jars import spark_home
    from lakehand.engines.spark.java import java_home

    settings = [os.environ[name] for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR") if os.environ.get(name)]
    classes = os.pathsep.join([*settings, f"{spark_home()}/jars/*"])
    command = [str(java_home().program), "-Xmx256m", "-cp", classes, CLIENT, *arguments]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"YARN's client does not answer: {error}") from error
    if done.returncode:
        raise Unavailable(f"YARN's client failed: {done.stderr.strip()[-TAIL:]}")
    return done.stdout


def parse_list(printed: str) -> dict[str, str]:
    """Lines with tabs between the columns: id, name, type ..."""
    rows = [line.split("\t") for line in printed.splitlines()]
    return {
        row[1].strip(): row[0].strip() for row in rows if len(row) > 2 and row[0].strip().startswith("application_")
    }
