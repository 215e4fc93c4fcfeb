# SPDX-License-Identifier: Apache-2.0
"""Tables with pending plans to copy, and services that are always ended."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests import hudi_tables
from tests.kit.service import RunningService
from tests.kit.templates import made_once

Start = Callable[..., RunningService]


@pytest.fixture(scope="session")
def light_table(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small table with one pending compaction plan."""
    options = {**hudi_tables.scheduling_compaction(2), "hoodie.metadata.enable": "false"}
    path = made_once(
        tmp_path_factory, "light", lambda path: hudi_tables.make_table(spark, path, commits=3, options=options)
    )
    assert [action for _, action in hudi_tables.pending(path)] == ["compaction"]
    return path


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    folder = tmp_path / "lake"
    folder.mkdir()
    return folder


@pytest.fixture
def copy_of(lake: Path) -> Callable[..., Path]:
    """These tables hold no absolute paths, so a copy is a table of its own. A writer needs the name unchanged."""

    def copy(table: Path, name: str = "") -> Path:
        return Path(shutil.copytree(table, lake / (name or table.name)))

    return copy


@pytest.fixture
def start_service(tmp_path: Path, lake: Path) -> Iterator[Start]:
    started: list[RunningService] = []

    def start(name: str = "home", **settings: str) -> RunningService:
        service = RunningService(tmp_path / name, lake, **settings)
        started.append(service)
        return service.start()

    yield start
    for service in started:
        service.end()
