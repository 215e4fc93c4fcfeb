# SPDX-License-Identifier: Apache-2.0
"""Paimon tables whose tags or partitions lead out of them: the expiry of either names the way out, and goes nowhere."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehand.jobs.boundary import OutsideTable
from lakehand.spi import Operation
from lakehand.testing.harness import PluginHarness
from tests.attacks.scene import fingerprint, make_old
from tests.attacks.test_paimon_paths import change_entries, nothing_changes, set_option, stopped, swap_content
from tests.jobs.paimon.conftest import days, tagged
from tests.jobs.paimon.service import disturbed, harness
from tests.kit.templates import made_once
from tests.paimon_tables import Lake

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")]
TABLES = {"expire-tags": tagged, "expire-partitions": days}
NEWEST = {"expire-tags": 13, "expire-partitions": 2}  # snapshots
Table = Callable[[str], Path]


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Table:
    """A copy of the table that needs an action."""

    def make(action: str) -> Path:
        spoil = TABLES[action]
        made = made_once(
            tmp_path_factory, f"paimon/{spoil.__name__}", lambda one: spoil(Lake(spark, one), spoil.__name__)
        )
        return Path(shutil.copytree(Lake(spark, made).path(spoil.__name__), tmp_path / "lake" / "shop.db" / "t"))

    return make


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    folder = tmp_path / "victim"
    folder.mkdir()
    for name in ("v.parquet", "tag-over", "manifest-list-1"):
        (folder / name).write_text("somebody else's")
    make_old(folder)
    return folder


def admitted(spark: SparkSession, path: Path, action: str, **asked: Any) -> tuple[PluginHarness, Operation]:
    subject = harness(spark, path, expire_partitions__older_than="30d")
    return subject, subject.admitted(subject.asked(action, **asked))


@pytest.mark.parametrize("name", ["../../../victim/tag-over", "x/../../../../../victim/tag-over"])
def test_the_name_of_a_tag_does_not_lead_out(spark: SparkSession, table: Table, victim: Path, name: str) -> None:
    subject, operation = admitted(spark, table("expire-tags"), "expire-tags")
    operation.process.parameters["tags"][0]["name"] = name  # type: ignore[index]
    with nothing_changes(victim.parent):
        assert f"names the file 'tag-{name}', which would lead out" in stopped(subject, operation)


@pytest.mark.parametrize("tag", ["over", "kept"])
@pytest.mark.parametrize("key", ["deltaManifestList", "baseManifestList", "indexManifest", "statistics"])
def test_a_tag_that_names_a_foreign_file_stops_it_whether_it_goes_or_stays(
    request: pytest.FixtureRequest, spark: SparkSession, tag: str, key: str
) -> None:
    path, victim = request.getfixturevalue("table")("expire-tags"), request.getfixturevalue("victim")
    file = path / "tag" / f"tag-{tag}"
    file.write_text(json.dumps({**json.loads(file.read_text()), key: f"{victim}/manifest-list-1"}))
    subject, operation = admitted(spark, path, "expire-tags")
    with nothing_changes(victim.parent):
        assert f"names the file '{victim}/manifest-list-1', which would lead out" in stopped(subject, operation)


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize("action", TABLES)
def test_a_data_file_outside_is_named_and_neither_dropped_nor_deleted(
    request: pytest.FixtureRequest, spark: SparkSession, action: str, dry_run: bool
) -> None:
    path, victim = request.getfixturevalue("table")(action), request.getfixturevalue("victim")
    subject, operation = admitted(spark, path, action, dry_run=dry_run)
    change_entries("_FILE_NAME", str)(path, NEWEST[action], f"{victim}/v.parquet")
    with nothing_changes(victim.parent):
        assert f"names the file '{victim}/v.parquet', which would lead out" in stopped(subject, operation)


@pytest.mark.parametrize("action", TABLES)
def test_an_option_that_moves_the_data_out_is_named_and_not_obeyed(
    spark: SparkSession, table: Table, victim: Path, action: str
) -> None:
    subject, operation = admitted(spark, path := table(action), action)
    set_option(path, "path", str(victim))
    with nothing_changes(victim.parent):
        assert f"schema-1 has the option path='{victim}'" in stopped(subject, operation)


MOMENTS = {"expire-tags": "deleting the tag", "expire-partitions": "committing"}


@pytest.mark.parametrize("attack", ["link", "content"])
@pytest.mark.parametrize("action", TABLES)
def test_what_happens_in_the_middle_is_seen_before_it_commits_or_deletes(
    request: pytest.FixtureRequest, spark: SparkSession, action: str, attack: str
) -> None:
    path, victim = request.getfixturevalue("table")(action), request.getfixturevalue("victim")
    twin, outside = victim / "twin", {}
    _, operation = admitted(spark, path, action)
    shutil.copytree(path, twin)
    (twin / "schema" / "schema-0").write_text((twin / "schema" / "schema-0").read_text() + "\n")
    (twin / "schema" / ".schema-0.crc").unlink(missing_ok=True)

    def meddle() -> None:
        if attack == "content":
            swap_content(path, twin)
        else:
            shutil.rmtree(path / "tag", ignore_errors=True)
            (path / "tag").symlink_to(twin / "manifest")
        outside.update(fingerprint(victim.parent))

    with pytest.raises(OutsideTable, match=r"another table is at|is a link to"):
        disturbed(spark, operation, MOMENTS[action], meddle)
    assert fingerprint(victim.parent) == outside
