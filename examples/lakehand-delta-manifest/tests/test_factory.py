# SPDX-License-Identifier: Apache-2.0
"""The published contract of factories on this one, and its decisions, on Delta tables that deltalake wrote."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from delta_manifest import DeltaManifestFactory
from delta_manifest.manifests import live_files, named_files, newest_version
from deltalake import DeltaTable, write_deltalake

from lakehand.spi import Action, Finding, Format, Invalid, Skip, TableProcess, TableSpec
from lakehand.testing import PluginHarness, ProcessFactoryContract, installed_format

PYTHON = {"delta-manifest.engine": "subprocess"}
ACTION = "generate-manifest"


def append(folder: Path, number: int) -> None:
    rows = pa.table({"id": [number], "day": [f"2026-11-{number:02d}"]})
    write_deltalake(str(folder), rows, mode="append", partition_by=["day"])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in (1, 2, 3):
        append(tmp_path / "orders", number)
    return tmp_path / "orders"


@pytest.fixture
def harness(folder: Path) -> PluginHarness:
    spec = TableSpec(
        location=str(folder), format=Format("delta"), table_name="orders", action_types=frozenset({Action(ACTION)})
    )
    return PluginHarness(factory=DeltaManifestFactory(), format=installed_format("delta"), spec=spec, properties=PYTHON)


class TestDeltaManifestFactory(ProcessFactoryContract):
    @pytest.fixture
    def subject(self, harness: PluginHarness) -> PluginHarness:
        return harness


def test_a_table_without_a_manifest_gets_one_and_then_rests(harness: PluginHarness, folder: Path) -> None:
    done = harness.serve(ACTION)

    assert done.process.reason == "the manifest names 0 of 3 files of version 2"
    assert done.result["files"] == 3
    assert named_files(str(folder)) == live_files(str(folder), newest_version(str(folder)))
    assert harness.wants(ACTION) == Skip(reason="the manifest names all 3 files of version 2")


def remove_a_day(folder: Path) -> None:
    DeltaTable(str(folder)).delete("id = 2")


CHANGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "append": (lambda folder: append(folder, 4), "3 of 4 files of version 3"),
    "delete": (remove_a_day, "2 of 2 files of version 3 and 1 that are gone"),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_a_changed_table_gets_a_new_manifest(harness: PluginHarness, folder: Path, kind: str) -> None:
    change, reason = CHANGES[kind]
    harness.serve(ACTION)
    change(folder)
    done = harness.serve(ACTION)

    assert done.process.reason == f"the manifest names {reason}"
    assert named_files(str(folder)) == live_files(str(folder), newest_version(str(folder)))


def test_a_writer_that_went_on_meanwhile_takes_nothing_away_from_the_effect(
    harness: PluginHarness, folder: Path
) -> None:
    wanted = harness.wants(ACTION)
    assert isinstance(wanted, TableProcess)
    operation = harness.admitted(harness.stored(wanted))
    harness.execute(operation)
    append(folder, 4)

    verdict = harness.verdict(operation, {})
    assert (verdict.finding, verdict.numbers["version"]) == (Finding.DONE, 2)


def test_a_manifest_that_someone_spoiled_is_not_done(harness: PluginHarness, folder: Path) -> None:
    operation = harness.serve(ACTION)
    next(folder.rglob("manifest")).write_text("")

    verdict = harness.verdict(operation, {})
    assert verdict.finding is Finding.NOT_DONE
    assert verdict.reason == "the manifest names 2 of 3 files of version 2"


def test_an_engine_that_has_no_job_is_refused() -> None:
    with pytest.raises(Invalid, match="use one of spark, subprocess"):
        DeltaManifestFactory().open({"delta-manifest.engine": "flink"})
