# SPDX-License-Identifier: Apache-2.0
"""A real table that its writer has left after two commits of five: served when the older one has its age."""

from collections.abc import Mapping
from datetime import datetime, timedelta, timezone

import pytest
from pyspark.sql import SparkSession

from lakehand.formats.hudi import HudiFormat
from lakehand.spi import Skip, TableReference
from tests import hudi_tables as hudi
from tests.jobs.hudi.conftest import MergeOnRead, harness
from tests.jobs.hudi.service import LOCKING, unchanged
from tests.kit.tiers import long_values

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")]
HOUR, SECOND = timedelta(hours=1), timedelta(seconds=1)
BY_AGE = {"delta-commits": "5", "trigger": "num-or-time", "max-age": "1h"}
ZONE = "hoodie.table.timeline.timezone"
WRITERS: Mapping[str, Mapping[str, str]] = {
    "on": {}, "version 6": hudi.VERSIONS[6], "version 8": hudi.VERSIONS[8], "in UTC": {ZONE: "UTC"}
}  # fmt: skip


def first_commit(path: str, *, in_utc: bool) -> datetime:
    """When the older of the two delta commits was completed."""
    snapshot = HudiFormat().inspect(TableReference(location=path))
    first = snapshot.timeline.completed("deltacommit")[0]
    if not in_utc:
        return first.modified
    completed = first.name.partition(".")[0].rpartition("_")[2]
    return datetime.strptime(completed[:14], "%Y%m%d%H%M%S").replace(tzinfo=timezone.utc)


@pytest.mark.parametrize("writer", ["on", *long_values("version 6", "version 8", "in UTC")])
def test_a_table_with_too_few_commits_is_compacted_when_its_oldest_change_is_old_enough_and_not_before(
    writer: str, spark: SparkSession, merge_on_read: MergeOnRead
) -> None:
    path = merge_on_read(writer, WRITERS[writer])
    table = harness(spark, path, **{f"hudi.compaction.{key}": value for key, value in BY_AGE.items()})
    due = first_commit(str(path), in_utc=writer == "in UTC") + HOUR
    table.now = lambda: due - 60 * SECOND

    waiting = table.wants("compaction")
    table.now = lambda: due - SECOND
    before = table.wants("compaction")
    table.now = lambda: due
    with unchanged(spark, path):
        done = table.serve("compaction")
    after = table.wants("compaction")

    assert isinstance(waiting, Skip)
    assert isinstance(before, Skip)
    assert (waiting.look_again, before.look_again) == (60 * SECOND, SECOND)
    assert len(done.result["instants"]) == 1  # type: ignore[arg-type]
    assert isinstance(after, Skip)
    assert after.look_again is None
    hudi.upsert(spark, path, number=3, options={**LOCKING, **WRITERS[writer]})
    assert hudi.rows(spark, path) == hudi.expected(3)
