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
from tests.attacks.attacks import AttackedTable, nest
from tests.attacks.scene import fingerprint, make_old, nothing_changes
from tests.attacks.test_paimon_paths import change_entries
from tests.jobs.paimon.conftest import days, tagged
from tests.jobs.paimon.service import disturbed, harness
from tests.kit.templates import made_once
from tests.kit.tiers import long_values
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


def stopped(subject: PluginHarness, operation: Operation) -> str:
    with pytest.raises(OutsideTable) as caught:
        subject.execute(operation)
    return str(caught.value)


@pytest.mark.parametrize(
    ("tag", "key"),
    [
        ("over", "deltaManifestList"),
        ("kept", "statistics"),
        *(pytest.param("over", key, marks=pytest.mark.long) for key in ("baseManifestList", "indexManifest")),
    ],
)
def test_a_tag_that_names_a_foreign_file_stops_it_whether_it_goes_or_stays(
    spark: SparkSession, table: Table, victim: Path, tag: str, key: str
) -> None:
    path = table("expire-tags")
    file = path / "tag" / f"tag-{tag}"
    file.write_text(json.dumps({**json.loads(file.read_text()), key: f"{victim}/manifest-list-1"}))
    subject, operation = admitted(spark, path, "expire-tags")
    with nothing_changes(victim.parent):
        assert f"names the file '{victim}/manifest-list-1', which would lead out" in stopped(subject, operation)


@pytest.mark.parametrize("dry_run", [False, *long_values(True)])
@pytest.mark.parametrize("action", TABLES)
def test_a_data_file_outside_is_named_and_neither_dropped_nor_deleted(
    request: pytest.FixtureRequest, spark: SparkSession, action: str, dry_run: bool
) -> None:
    path, victim = request.getfixturevalue("table")(action), request.getfixturevalue("victim")
    subject, operation = admitted(spark, path, action, dry_run=dry_run)
    change_entries("_FILE_NAME", str)(path, NEWEST[action], f"{victim}/v.parquet")
    with nothing_changes(victim.parent):
        assert f"names the file '{victim}/v.parquet', which would lead out" in stopped(subject, operation)


STEPS = {"expire-tags": "deleting the tag", "expire-partitions": "committing"}


@pytest.mark.parametrize("action", TABLES)
def test_a_link_that_comes_in_the_middle_is_seen_before_it_commits_or_deletes(
    spark: SparkSession, table: Table, victim: Path, action: str
) -> None:
    path, outside = table(action), {}
    _, operation = admitted(spark, path, action)

    def meddle() -> None:
        shutil.rmtree(path / "tag", ignore_errors=True)
        (path / "tag").symlink_to(victim)
        outside.update(fingerprint(victim.parent))

    with pytest.raises(OutsideTable, match="tag is a link to"):
        disturbed(spark, operation, STEPS[action], meddle)
    assert fingerprint(victim.parent) == outside


@pytest.mark.long
@pytest.mark.parametrize("action", TABLES)
def test_a_table_below_is_left_alone(spark: SparkSession, table: Table, victim: Path, action: str) -> None:
    path = table(action)
    nest("delta", AttackedTable(format="paimon", table=path, location=path, outside=victim))
    subject, operation = admitted(spark, path, action)
    before = fingerprint(path / "inner")

    done = subject.settled(operation, subject.execute(operation))

    assert done.result
    assert fingerprint(path / "inner") == before
