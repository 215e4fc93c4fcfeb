# SPDX-License-Identifier: Apache-2.0
"""A real YARN on loopback: a ResourceManager and a NodeManager, from Hadoop's jars for tests and those of pyspark."""

import getpass
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from pyspark.sql import SparkSession

from lakehand.engines.spark.jars import spark_home
from lakehand.engines.spark.java import java_home
from tests.jars import local_jars
from tests.kit.polling import wait_for
from tests.kit.ports import quiet_port
from tests.kit.spark_cluster import HOST, kill

SERVER = "org.apache.hadoop.yarn.server"
FROM_SPARK = (
    "hadoop-client-api", "hadoop-client-runtime", "jaxb-runtime", "jakarta.xml.bind-api", "activation", "istack",
    "slf4j-api", "commons-logging",
)  # fmt: skip
QUEUES = ("default", "maintenance")


@dataclass(frozen=True, slots=True, kw_only=True)
class YarnApplication:
    id: str
    queue: str
    tags: set[str]

    @classmethod
    def of(cls, report: Any) -> "YarnApplication":
        """YARN keeps tags in lower case, as our handles are."""
        tags = {str(tag) for tag in report.getApplicationTags()}
        return cls(id=str(report.getApplicationId().toString()), queue=str(report.getQueue()), tags=tags)


class YarnCluster:
    def __init__(self, home: Path) -> None:
        self.home = home
        self.conf = home / "conf"
        self.shared = home / "shared"  # storage that service and nodes have in common
        self.page = quiet_port()
        self.daemons: list[subprocess.Popen[bytes]] = []

    def start(self) -> "YarnCluster":
        self.conf.mkdir()
        self.shared.mkdir(mode=0o700)
        write_xml(self.conf / "core-site.xml", {"fs.defaultFS": "file:///"})
        write_xml(self.conf / "yarn-site.xml", {**self._addresses(), **self._node()})
        write_xml(self.conf / "capacity-scheduler.xml", scheduler())
        (self.conf / "logging.properties").write_text(".level=SEVERE\n")  # Jersey has another logger
        logging = "log4j.rootLogger=WARN,c\nlog4j.appender.c=org.apache.log4j.ConsoleAppender\n"
        (self.conf / "log4j.properties").write_text(logging + "log4j.appender.c.layout=org.apache.log4j.SimpleLayout\n")
        self._start("resourcemanager.ResourceManager")
        self._start("nodemanager.NodeManager")
        wait_for(self._has_a_node, "a node of YARN")
        return self

    def _has_a_node(self) -> bool:
        ends = [one.poll() for one in self.daemons]
        assert ends == [None, None], f"exit codes {ends}: {(self.home / 'daemons.log').read_text()[-3000:]}"
        return bool(self.get("metrics").get("activeNodes") == 1)

    def get(self, path: str) -> dict[str, Any]:
        """What the ResourceManager says; empty while it does not answer. With these jars its JSON has names of Java."""
        try:
            answer = httpx.get(f"http://{HOST}:{self.page}/ws/v1/cluster/{path}", timeout=10)
            found: dict[str, Any] = answer.json() if answer.is_success else {}
        except (httpx.HTTPError, ValueError):
            return {}
        return found

    def state(self, application: str) -> str:
        return str(self.get(f"apps/{application}/state").get("state"))

    def tagged(self, spark: SparkSession, tag: str) -> "list[YarnApplication]":
        """The running applications with this tag, as YARN's own client in the JVM of this session sees them."""
        java: Any = spark.sparkContext._jvm
        records, tags = java.org.apache.hadoop.yarn.api.records, java.java.util.HashSet()
        tags.add(tag)
        running = java.java.util.EnumSet.of(records.YarnApplicationState.RUNNING)
        with self._client(java) as client:
            return [YarnApplication.of(one) for one in client.getApplications(None, running, tags)]

    def final_state(self, spark: SparkSession, application: str) -> str:
        java: Any = spark.sparkContext._jvm
        with self._client(java) as client:
            named = java.org.apache.hadoop.yarn.api.records.ApplicationId.fromString(application)
            return str(client.getApplicationReport(named).getFinalApplicationStatus().toString())

    @contextmanager
    def _client(self, java: Any) -> Iterator[Any]:
        conf = java.org.apache.hadoop.yarn.conf.YarnConfiguration()
        conf.addResource(java.org.apache.hadoop.fs.Path((self.conf / "yarn-site.xml").as_uri()))
        client = java.org.apache.hadoop.yarn.client.api.YarnClient.createYarnClient()
        client.init(conf)
        client.start()
        try:
            yield client
        finally:
            client.stop()

    def kill_application(self, application: str) -> None:
        address = f"http://{HOST}:{self.page}/ws/v1/cluster/apps/{application}/state?user.name={getpass.getuser()}"
        httpx.put(address, json={"state": "KILLED"}, timeout=30).raise_for_status()
        wait_for(lambda: self.state(application) == "KILLED", f"{application} to be killed")

    def end(self) -> None:
        for daemon in self.daemons:
            kill(daemon)

    def _addresses(self) -> dict[str, str]:
        manager, node = "yarn.resourcemanager", "yarn.nodemanager"
        kinds = [f"{manager}.{kind}address" for kind in ("", "scheduler.", "resource-tracker.", "admin.")]
        kinds += [f"{node}.{kind}address" for kind in ("", "localizer.", "webapp.", "collector-service.")]
        found = {kind: f"{HOST}:{quiet_port()}" for kind in kinds}
        hosts = {f"{manager}.hostname": HOST, f"{manager}.bind-host": HOST, f"{node}.hostname": HOST}
        return {**hosts, **found, f"{manager}.webapp.address": f"{HOST}:{self.page}"}

    def _node(self) -> dict[str, str]:
        return {
            "yarn.nodemanager.local-dirs": str(self.home / "local"),
            "yarn.nodemanager.log-dirs": str(self.home / "logs"),
            "yarn.nodemanager.resource.memory-mb": "16384",
            "yarn.nodemanager.resource.cpu-vcores": "16",
            "yarn.nodemanager.vmem-check-enabled": "false",
            "yarn.nodemanager.pmem-check-enabled": "false",
            "yarn.nodemanager.disk-health-checker.enable": "false",
            "yarn.scheduler.minimum-allocation-mb": "128",
        }

    def _start(self, program: str) -> None:
        java, jars = java_home(), spark_home() / "jars"
        own = [str(jar) for jar in local_jars(["yarn"])]
        shared = [str(jar) for name in FROM_SPARK for jar in jars.glob(f"{name}*.jar")]
        opened = [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in ("java.lang", "java.io")]
        classes = os.pathsep.join([str(self.conf), *own, *shared])
        logs = [f"-Dyarn.log.dir={self.home}", f"-Djava.util.logging.config.file={self.conf / 'logging.properties'}"]
        with (self.home / "daemons.log").open("ab") as log:
            daemon = subprocess.Popen(
                [java.program, "-Xmx512m", *opened, *logs, "-cp", classes, f"{SERVER}.{program}"],
                env={**os.environ, "JAVA_HOME": str(java.home)}, cwd=self.home,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        self.daemons.append(daemon)


def scheduler() -> dict[str, str]:
    prefix = "yarn.scheduler.capacity"
    shares = {f"{prefix}.root.{queue}.capacity": "50" for queue in QUEUES}
    most = {f"{prefix}.root.{queue}.maximum-capacity": "100" for queue in QUEUES}
    alone = {f"{prefix}.root.{queue}.user-limit-factor": "2" for queue in QUEUES}  # one user may have both shares
    masters = {f"{prefix}.maximum-am-resource-percent": "1.0"}
    return {f"{prefix}.root.queues": ",".join(QUEUES), **shares, **most, **alone, **masters}


def write_xml(file: Path, values: dict[str, str]) -> None:
    rows = "".join(f"<property><name>{name}</name><value>{value}</value></property>" for name, value in values.items())
    file.write_text(f"<configuration>{rows}</configuration>")
