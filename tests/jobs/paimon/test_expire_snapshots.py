# SPDX-License-Identifier: Apache-2.0
"""Expiry of real histories: old snapshots go, and whatever a tag, branch, consumer or operation needs stays."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehand.jobs.attempt import job_called
from lakehand.jobs.job import Job
from lakehand.spi import Failure, Finding, Skip, TableProcess
from tests import paimon_tables as paimon
from tests.jobs.paimon.conftest import Make
from tests.jobs.paimon.service import harness
from tests.paimon_tables import Lake

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")]


@pytest.fixture
def lake(lake_with: Make) -> Lake:
    """36 snapshots, of which all but the newest 5 are 3 days old."""
    lake = lake_with("history")
    paimon.age(lake.path("history"), 3, but=5)
    return lake


def ids(lake: Lake) -> list[int]:
    return [one["id"] for one in paimon.snapshots(lake.path("history"))]


def test_old_snapshots_expire_and_the_rows_stay(spark: SparkSession, lake: Lake) -> None:
    path, before = lake.path("history"), lake.facts("history")
    service, files = harness(spark, path), len(paimon.live_files(path))

    wanted = service.wants("expire-snapshots")
    assert isinstance(wanted, TableProcess)
    assert wanted.reason == "26 of 36 snapshots are older than 1d and may go, the last 10 stay"
    ended = service.finish(service.stored(wanted))

    assert ended.reason == "36 snapshots before, 10 now; the oldest is 27"
    assert ids(lake) == list(range(27, 37))
    assert len(paimon.live_files(path)) < files - 26 * 3, "data files, manifests and lists went with them"
    assert lake.facts("history") == before
    again = service.wants("expire-snapshots")
    assert isinstance(again, Skip)
    assert again.reason.startswith("0 of 10 snapshots are older than 1d and may go")


def test_a_dry_run_names_exactly_what_then_goes(spark: SparkSession, lake: Lake) -> None:
    path = lake.path("history")
    lake.sql("CALL lake.sys.create_tag(table => 'shop.history', tag => 'kept', snapshot => 10)")
    service = harness(spark, path)
    asked = service.admitted(service.asked("expire-snapshots", dry_run=True))
    before = paimon.live_files(path)

    result = service.execute(asked)

    assert paimon.live_files(path) == before
    assert service.verdict(asked, result).numbers["changed"] is False
    assert (result["would_expire"], result["would_delete_files"]) == (26, len(result["would_delete"]))
    service.serve("expire-snapshots")
    gone = {str(path / file) for file in before - paimon.live_files(path)}
    named = {name.removeprefix("file:") for name in result["would_delete"]}
    assert named == {name for name in gone if "/manifest/" not in name}
    assert result["would_delete_bytes"] > 0


def test_tags_and_branches_and_consumers_keep_what_they_need(spark: SparkSession, lake: Lake) -> None:
    path = lake.path("history")
    for tag, number in (("kept", 5), ("forked", 12), ("tagged", 8)):
        lake.sql(f"CALL lake.sys.create_tag(table => 'shop.history', tag => '{tag}', snapshot => {number})")
    for branch, tag in (("untagged", "forked"), ("safe", "tagged")):
        lake.sql(f"CALL lake.sys.create_branch(table => 'shop.history', branch => '{branch}', tag => '{tag}')")
    lake.sql("CALL lake.sys.create_branch(table => 'shop.history', branch => 'fresh')")
    lake.sql("CALL lake.sys.delete_tag(table => 'shop.history', tag => 'forked')")
    (path / "consumer").mkdir()
    (path / "consumer" / "consumer-stream").write_text(json.dumps({"nextSnapshot": 23}))
    service = harness(spark, path)

    ended = service.serve("expire-snapshots")

    assert ended.process.parameters["held"] == "branch untagged needs snapshot 12"
    assert ids(lake) == list(range(12, 37))
    (path / "branch" / "branch-untagged").rename(path / "no-branch")
    assert "consumer stream needs snapshot 23" in service.serve("expire-snapshots").process.parameters["held"]  # type: ignore[operator]
    assert ids(lake) == list(range(23, 37))
    assert paimon.facts(spark, path, **{"scan.tag-name": "kept"})[0] == 5
    assert paimon.facts(spark, path, **{"scan.snapshot-id": "23"})[0] == 23
    assert lake.sql("SELECT count(1) FROM {shop}.`history$branch_safe`")[0][0] == 8


def test_a_branch_that_lost_its_tag_reads_its_rows_after_an_expiry(spark: SparkSession, lake: Lake) -> None:
    """Paimon's own expiry takes them away."""
    lake.sql("CALL lake.sys.create_tag(table => 'shop.history', tag => 'forked', snapshot => 15)")
    lake.sql("CALL lake.sys.create_branch(table => 'shop.history', branch => 'b', tag => 'forked')")
    lake.sql("CALL lake.sys.delete_tag(table => 'shop.history', tag => 'forked')")
    service = harness(spark, lake.path("history"))
    admitted = service.admitted(service.asked("expire-snapshots"))

    straight = {**admitted.process.parameters, "until": 36}
    run(spark, straight)

    assert min(ids(lake)) == 15, "the job checks branches itself"
    assert lake.sql("SELECT count(1) FROM {shop}.`history$branch_b`")[0][0] == 15


def test_nothing_expires_while_the_manifests_of_a_tag_cannot_be_read(spark: SparkSession, lake: Lake) -> None:
    """Paimon takes a list that was cut short for an empty one, and the files of the tag for unused."""
    path = lake.path("history")
    lake.sql("CALL lake.sys.create_tag(table => 'shop.history', tag => 'kept', snapshot => 10)")
    base = path / "manifest" / paimon.snapshots(path)[9]["baseManifestList"]
    base.write_bytes(base.read_bytes()[:-20])
    service = harness(spark, path)

    answer = service.factory.admit(service.runtime(), service.asked("expire-snapshots", confirm=True))

    assert isinstance(answer, Failure)
    assert answer.message.startswith("nothing expires while its metadata cannot be read")


def test_a_snapshot_that_a_running_operation_began_with_stays(spark: SparkSession, lake: Lake) -> None:
    service = harness(spark, lake.path("history"))
    rewrite = service.wants("compact")
    assert isinstance(rewrite, TableProcess)
    running = service.stored(rewrite)
    running.process.parameters["before"] = 15  # type: ignore[index]

    ended = service.serve("expire-snapshots")

    assert min(ids(lake)) == 15
    assert ended.process.parameters["held"] == f"operation {running.id} needs snapshot 15"


@pytest.mark.parametrize(
    ("options", "properties"),
    [
        pytest.param({"max_age": "0s", "retain_last": 0}, {}, marks=pytest.mark.long),
        pytest.param({"max-age": "1s", "retain-last": 1}, {}, marks=pytest.mark.long),
        pytest.param(
            {}, {"expire_snapshots__max_age": "0s", "expire_snapshots__retain_last": "0"}, marks=pytest.mark.long
        ),
        ({"max-age": "0h"}, {"expire_snapshots__max_age": "1s", "expire_snapshots__retain_last": "1"}),
    ],
)
def test_neither_requests_nor_properties_expire_the_young_or_the_last(
    options: dict[str, Any], properties: dict[str, str], spark: SparkSession, lake: Lake
) -> None:
    service = harness(spark, lake.path("history"), **properties)

    service.finish(service.asked("expire-snapshots", options=options, confirm=True))

    assert set(ids(lake)) >= set(range(32, 37)), "the newest are minutes old"
    paimon.age(lake.path("history"), 30)
    service.finish(service.asked("expire-snapshots", options=options, confirm=True))
    assert ids(lake)[-1] == 36


@pytest.mark.long
def test_the_floors_of_the_plugin_keep_more_and_never_less(spark: SparkSession, lake: Lake) -> None:
    service = harness(spark, lake.path("history"), expire_snapshots__retain_last="1")
    service.factory.open(
        {"paimon.expire-snapshots.retain-last-floor": "20", "paimon.expire-snapshots.max-age-floor": "0s"}
    )

    service.serve("expire-snapshots")

    assert len(ids(lake)) == 20


@pytest.mark.parametrize(
    "wrong",
    [
        {"cutoff": int(time.time() * 1000) + 10**9},
        {"cutoff": "yesterday"},
        {"retain_last": 0},
        {"retain_last": True},
        {"until": None},
    ],
)
def test_a_job_refuses_parameters_below_the_floor(wrong: dict[str, Any], spark: SparkSession, lake: Lake) -> None:
    service = harness(spark, lake.path("history"))
    admitted = service.admitted(service.asked("expire-snapshots"))

    with pytest.raises(Exception, match=r"whole number|milliseconds|1 h is deleted") as caught:
        run(spark, {**admitted.process.parameters, **wrong})

    assert service.failure(admitted, caught.value).reason == "refused"
    assert len(ids(lake)) == 36
    assert service.verdict(admitted, {}).finding is Finding.NOT_DONE


def test_a_job_with_a_border_far_away_leaves_the_last_and_the_young(spark: SparkSession, lake: Lake) -> None:
    service = harness(spark, lake.path("history"))
    admitted = service.admitted(service.asked("expire-snapshots"))

    run(spark, {**admitted.process.parameters, "until": 10**9, "retain_last": 1})

    assert ids(lake) == list(range(32, 37))


def run(spark: SparkSession, parameters: Any) -> Any:
    return job_called("paimon.expire_snapshots")(Job(spark.newSession(), dict(parameters)))


def test_a_table_that_was_never_written_has_nothing_to_expire(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, tmp_path)
    service = harness(spark, lake.create("empty"))

    answers = [service.wants(action) for action in ("compact", "expire-snapshots", "remove-orphans")]

    assert all(isinstance(answer, Skip) for answer in answers), answers
