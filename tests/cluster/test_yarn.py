# SPDX-License-Identifier: Apache-2.0
"""An application per operation on a real YARN, in both modes, while one of them and the service are killed."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehand.engines.spark.jars import spark_home
from lakehand.engines.spark.java import java_home
from tests.cluster.conftest import Make
from tests.cluster.test_cluster import LONG, attempt_of, spoiled
from tests.e2e.formats import DAMAGES
from tests.kit.polling import wait_for
from tests.kit.spark_cluster import HOST
from tests.kit.tiers import long_values
from tests.kit.yarn_cluster import YarnApplication, YarnCluster

pytestmark = [pytest.mark.spark, pytest.mark.long]
QUEUE = "maintenance"
# The first one is killed. In client mode its driver lives on, and could commit an Iceberg rewrite without executors.
FORMATS: Mapping[str, Sequence[str]] = {"cluster": ["hudi", "iceberg", "delta", "lance"], "client": ["delta", "paimon"]}


def settings(staging: Path, **further: str) -> dict[str, str]:
    """All on loopback, with the jars of Spark where they are, and with Java's options of all tests."""
    there = {
        "JAVA_HOME": str(java_home().home), "SPARK_LOCAL_IP": HOST, "SPARK_HOME": str(spark_home()),
        "JAVA_TOOL_OPTIONS": os.environ["JAVA_TOOL_OPTIONS"], **further,
    }  # fmt: skip
    environment = {
        f"spark.{who}.{key}": text for who in ("executorEnv", "yarn.appMasterEnv") for key, text in there.items()
    }
    return {
        "master": "yarn", "driver_host": HOST, "bind_address": HOST, **environment,
        "spark.yarn.jars": f"local:{spark_home()}/jars/*", "spark.yarn.stagingDir": staging.as_uri(),
        "spark.yarn.am.memory": "512m", "spark.executor.memory": "600m",
    }  # fmt: skip


@pytest.mark.timeout(1500)
@pytest.mark.parametrize("mode", ["cluster", *long_values("client")])
def test_an_application_and_the_service_are_killed_and_each_table_is_rewritten_once(
    spark: SparkSession, yarn: YarnCluster, make_service: Make, marks: Path, mode: str
) -> None:
    own = {"parallelism": "1", "max_applications": "5", "driver_memory": "700m"}
    there = {"deploy_mode": mode, "shared_folder": str(yarn.shared)}
    service = make_service(settings(yarn.home / "staging", MARKS=str(marks)), **own, **there)
    tables = [spoiled(spark, service.warehouse, DAMAGES[name], "spark-submit") for name in FORMATS[mode]]
    service.start()
    for damage, path, _ in tables:
        service.add_table(path, damage.action, format=damage.format, queue=QUEUE)
    wait_for(lambda: len(list(marks.iterdir())) == len(tables), "all jobs to be in the middle", LONG)
    handles = [attempt_of(service, damage, path)["handle"] for damage, path, _ in tables]
    folder = yarn.shared if mode == "cluster" else service.home
    applications = {handle: application_of(folder, handle) for handle in handles}

    assert [yarn.tagged(spark, handle) for handle in handles] == [
        [YarnApplication(id=applications[handle], queue=QUEUE, tags={"lakehand", handle})] for handle in handles
    ]
    assert {one.id for one in yarn.tagged(spark, "lakehand")} == set(applications.values())
    assert {yarn.state(one) for one in applications.values()} == {"RUNNING"}
    killed, *others = [applications[handle] for handle in handles]
    service.kill()
    yarn.kill_application(killed)
    (marks / "go").touch()
    service.start()

    for damage, path, facts in tables:
        ended = service.wait_status(path, "succeeded", "failed", action=damage.action)
        attempts = 2 if path == tables[0][1] else 1
        outcome = (ended["status"], ended["attempts"], damage.rewrites(path), damage.read(spark, path))
        assert outcome == ("succeeded", attempts, 1, facts), f"{path.name}: {ended}"

    if mode == "cluster":  # in client mode its word says nothing about the driver
        wait_for(
            lambda: {yarn.final_state(spark, one) for one in others} == {"SUCCEEDED"}, "YARN to list their success"
        )


def application_of(folder: Path, handle: str) -> str:
    """The id that its driver has published."""
    [state] = folder.rglob(f"applications/{handle}/spool/driver.json")
    return str(json.loads(state.read_text())["application"])
