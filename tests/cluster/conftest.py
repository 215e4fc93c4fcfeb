# SPDX-License-Identifier: Apache-2.0
"""A cluster for the tests of this folder, services that use it with both engines, and a Python for its executors."""

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from lakehand.engines.spark.jars import JarsUnavailable
from tests.jars import local_jars
from tests.kit.service import RunningService
from tests.kit.spark_cluster import SparkCluster
from tests.kit.yarn_cluster import YarnCluster

Make = Callable[..., RunningService]


@pytest.fixture(scope="module")
def daemons(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    cluster = SparkCluster(tmp_path_factory.mktemp("cluster"))
    try:
        yield cluster.start()
    finally:
        cluster.end()


@pytest.fixture
def cluster(daemons: SparkCluster) -> SparkCluster:
    """Whole again, whatever the test before has killed."""
    daemons.repair()
    return daemons


@pytest.fixture
def foreign_python(tmp_path: Path) -> Path:
    """A Python as a cluster has it: with the libraries, and without Lakehand."""
    absent = tmp_path / "absent" / "lakehand"
    absent.mkdir(parents=True)
    (absent / "__init__.py").write_text("raise ImportError('executors have no lakehand')\n")
    program = tmp_path / "python"
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{absent.parent}:$PYTHONPATH" exec {sys.executable} "$@"\n')
    program.chmod(0o755)
    return program


@pytest.fixture
def marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Installs the routing plugin for the services of this test. Each table whose job has paused leaves a file here."""
    site, marks = tmp_path / "site", tmp_path / "marks"
    marks.mkdir()
    shutil.copytree(Path(__file__).parent / "routed", site)
    info = site / "lakehand_routed-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lakehand-routed\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[lakehand.process_factories]\nrouted = lakehand_routed:RoutedFactory\n")
    monkeypatch.setenv("PYTHONPATH", f"{site}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.setenv("MARKS", str(marks))
    return marks


@pytest.fixture
def make_service(tmp_path: Path, foreign_python: Path, marks: Path) -> Iterator[Make]:
    """A service with both engines, not started yet."""
    made: list[RunningService] = []
    (tmp_path / "lake").mkdir()

    def make(spark: Mapping[str, str], **own: str) -> RunningService:
        plugins = {
            "process-factories": {"routed": {"priority": 10}},
            "engines": {"spark-submit": {"properties": {key.replace("_", "-"): text for key, text in own.items()}}},
        }
        settings = json.dumps({"executor_python": str(foreign_python), **spark})
        made.append(
            RunningService(
                tmp_path / "home", tmp_path / "lake", spark=settings, plugins=json.dumps(plugins), lease="180"
            )
        )
        return made[-1]

    yield make
    for service in made:
        service.end()
        kill_applications(service.home)


@pytest.fixture
def yarn(yarn_daemons: YarnCluster, monkeypatch: pytest.MonkeyPatch) -> YarnCluster:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(yarn_daemons.conf))
    return yarn_daemons


@pytest.fixture(scope="module")
def yarn_daemons(tmp_path_factory: pytest.TempPathFactory) -> Iterator[YarnCluster]:
    """Skipped visibly where its jars cannot be fetched; not where all must be tested."""
    try:
        local_jars(["yarn"])
    except JarsUnavailable as missing:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(missing))
    cluster = YarnCluster(tmp_path_factory.mktemp("yarn"))
    try:
        yield cluster.start()
    finally:
        cluster.end()


def kill_applications(home: Path) -> None:
    from lakehand.engines.spark_submit import SparkSubmitEngine
    from lakehand.spi import EngineContext

    engine = SparkSubmitEngine()
    engine.open({}, EngineContext(home=home / "engines" / "spark-submit"))
    for application in engine._active():
        application.process.kill()
