# SPDX-License-Identifier: Apache-2.0
"""Tags of real tables past their time: they go with the files that only they keep, and all others can be read."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehand.jobs.paimon.references import MetadataUnreadable
from lakehand.spi import Finding, Operation, Skip, TableProcess
from lakehand.testing.harness import PluginHarness
from tests import paimon_tables as paimon
from tests.jobs.paimon.conftest import Make
from tests.jobs.paimon.service import disturbed, harness, killed
from tests.kit.tiers import long_values
from tests.paimon_tables import Lake, Writer

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")]
ACTION = "expire-tags"


@pytest.fixture
def lake(lake_with: Make) -> Lake:
    return lake_with("tagged")


def path_of(lake: Lake) -> Path:
    return lake.path("tagged")


def admitted(service: PluginHarness, **asked: Any) -> Operation:
    return service.admitted(service.asked(ACTION, **asked))


def tags(lake: Lake) -> list[str]:
    return sorted(file.name.removeprefix("tag-") for file in path_of(lake).glob("tag/tag-*"))


def rows(spark: SparkSession, lake: Lake, tag: str) -> int:
    return paimon.facts(spark, path_of(lake), **{"scan.tag-name": tag})[0]


def data_files(lake: Lake) -> set[str]:
    return {file.name for file in path_of(lake).glob("bucket-0/*.parquet")}


def test_tags_past_their_time_go_with_the_files_that_only_they_keep(spark: SparkSession, lake: Lake) -> None:
    path, before = path_of(lake), lake.facts("tagged")
    service = harness(spark, path)
    assert rows(spark, lake, "over") == 6
    listed = service.execute(dry := admitted(service, dry_run=True))
    all_files = paimon.live_files(path)
    assert (tags(lake), listed["would_expire"]) == (["double", "kept", "over", "over too"], ["over", "over too"])
    assert service.verdict(dry, listed).numbers["changed"] is False
    wanted = service.wants(ACTION)
    assert wanted.reason == "2 of 4 tags are past their own time by 1d: over, over too"

    ended = service.finish(service.stored(wanted))  # type: ignore[arg-type]

    assert ended.reason == "2 of 2 tags are gone; 4 before, 2 now"
    assert tags(lake) == ["double", "kept"]
    gone = {str(path / file) for file in all_files - paimon.live_files(path) if not file.name.startswith(".")}
    assert gone == {name.removeprefix("file:") for name in listed["would_delete"]}, "exactly what was announced"
    assert sum(name.endswith(".parquet") for name in gone) == 3
    assert (rows(spark, lake, "kept"), rows(spark, lake, "double"), lake.facts("tagged")) == (3, 8, before)
    assert isinstance(rest := service.wants(ACTION), Skip)
    assert rest.reason == "0 of 2 tags are past their own time by 1d"


def test_a_driver_that_dies_leaves_no_tag_without_its_files(spark: SparkSession, lake: Lake) -> None:
    service = harness(spark, path_of(lake))
    operation = admitted(service)
    files = data_files(lake)

    killed(spark, operation, "deleting the tag over")
    assert (service.verdict(operation, {}).finding, rows(spark, lake, "over")) == (Finding.NOT_DONE, 6)
    killed(spark, operation, "deleted_tags")
    assert (tags(lake), data_files(lake)) == (["double", "kept", "over too"], files), "orphans, which are found later"
    ended = service.finish(operation)

    assert tags(lake) == ["double", "kept"]
    assert ended.result["tags_after"] == 2
    killed_after = service.verdict(operation, {})
    assert (killed_after.finding, killed_after.numbers["deleted_tags"]) == (Finding.DONE, 2)


def test_a_tag_that_somebody_prolongs_meanwhile_stays(spark: SparkSession, lake: Lake) -> None:
    service = harness(spark, path_of(lake))
    operation = admitted(service)
    file = path_of(lake) / "tag" / "tag-over"
    longer = json.dumps({**json.loads(file.read_text()), "tagTimeRetained": 86400.0 * 365})

    result = disturbed(spark, operation, "deleting the tag over", lambda: file.write_text(longer))

    assert result["kept"] == {"over": "somebody has changed it since"}
    assert service.settled(operation, result).result["deleted_tags"] == 1
    assert (tags(lake), rows(spark, lake, "over")) == (["double", "kept", "over"], 6)


@pytest.mark.long
def test_a_writer_commits_beside_us(spark: SparkSession, lake: Lake) -> None:
    service, writer = harness(spark, path_of(lake)), Writer(spark, path_of(lake))
    operation = admitted(service)

    result = disturbed(spark, operation, "deleting the tag over", lambda: writer.append([500]))

    assert service.settled(operation, result).result["deleted_tags"] == 2
    assert lake.facts("tagged")[0] == 13


def test_a_branch_that_begins_at_a_tag_meanwhile_keeps_it(spark: SparkSession, lake: Lake) -> None:
    service = harness(spark, path_of(lake))
    operation = admitted(service)

    result = disturbed(spark, operation, "deleting the tag over", lambda: make_branch(path_of(lake), "over"))

    assert result["kept"] == {"over": "the branch b began there"}
    service.settled(operation, result)
    assert (rows(spark, lake, "over"), lake.sql("SELECT count(1) FROM {shop}.`tagged$branch_b`")[0][0]) == (6, 6)
    assert isinstance(skip := service.wants(ACTION), Skip)
    assert skip.reason == "0 of 3 tags are past their own time by 1d; 1 are kept for branches"


def make_branch(path: Path, tag: str, kind: str = "snapshot") -> None:
    """What Paimon makes of a tag while the tag's snapshot is there. ``kind``: what the branch has of it now."""
    own, branch = json.loads((path / "tag" / f"tag-{tag}").read_text()), path / "branch" / "branch-b"
    shutil.copytree(path / "schema", branch / "schema")
    (branch / kind).mkdir()
    document = {key: value for key, value in own.items() if key not in ("tagCreateTime", "tagTimeRetained")}
    (branch / kind / f"{kind}-{own['id']}").write_text(json.dumps(document))


@pytest.mark.parametrize("kind", ["snapshot", *long_values("tag")])
def test_files_that_a_branch_took_from_a_deleted_tag_stay(spark: SparkSession, lake: Lake, kind: str) -> None:
    """Paimon's own deletion of a tag takes them away."""
    path = path_of(lake)
    make_branch(path, "kept", kind)
    kept = json.loads((path / "tag" / "tag-kept").read_text())
    (path / "tag" / "tag-kept").unlink()

    assert harness(spark, path).serve(ACTION).result["deleted_tags"] == 2

    assert tags(lake) == ["double"]
    (path / "tag" / "tag-again").write_text(json.dumps(kept))
    assert rows(spark, lake, "again") == 3


@pytest.mark.parametrize("cut", ["list", *long_values("manifest")])
def test_nothing_is_deleted_while_what_stays_cannot_be_read(spark: SparkSession, lake: Lake, cut: str) -> None:
    """Paimon takes a list that was cut short for an empty one."""
    path = path_of(lake)
    service = harness(spark, path)
    operation = admitted(service)
    spoil(path, "kept", cut)
    before = paimon.live_files(path)

    with pytest.raises(MetadataUnreadable) as caught:
        service.execute(operation)

    assert service.failure(operation, caught.value).reason == "metadata-unreadable"
    assert paimon.live_files(path) == before


def spoil(path: Path, tag: str, what: str) -> None:
    file = path / "manifest" / json.loads((path / "tag" / f"tag-{tag}").read_text())["deltaManifestList"]
    if what == "manifest":
        from lakehand.storage import read_records

        [first, *_] = read_records(file.read_bytes(), str(file))
        file = path / "manifest" / first["_FILE_NAME"]
    file.write_bytes(file.read_bytes()[:-20])
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)


@pytest.mark.parametrize("producer", ["none", *long_values("input")])
def test_a_stream_that_lags_reads_its_changelogs_after_a_tag_has_gone(
    spark: SparkSession, tmp_path: Path, producer: str
) -> None:
    """A changelog outlives its snapshot, and has no files of its own: it needs those that a tag keeps as well."""
    lake = Lake(spark, tmp_path / "lake")
    path = changelog_table(lake, producer, {"primary-key": "id", "bucket": "1"} if producer != "none" else {})
    service, before = harness(spark, path, expire_snapshots__retain_last="3"), lake_rows(spark, path)
    assert service.serve("expire-snapshots").result["snapshots_after"] == 3
    assert streamed(spark, path) == list(range(12)), "what the expiry of snapshots leaves"

    ended = service.serve(ACTION)

    assert (tags(lake), ended.result["deleted_tags"]) == ([], 1)
    assert streamed(spark, path) == list(range(12))
    assert lake_rows(spark, path) == before
    (path / "bucket-0" / "data-0-orphan.parquet").write_bytes(b"orphan")
    paimon.age(path, 5)
    assert service.serve("remove-orphans").result["deleted_files"] == 1
    assert streamed(spark, path) == list(range(12)), "changelogs are not orphans either"


def test_a_full_merge_does_not_delete_a_tag_while_a_changelog_reads_its_files(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Paimon's own call deletes the tag in its commit, and the stream cannot go on."""
    lake = Lake(spark, tmp_path / "lake")
    path = changelog_table(lake, "none", {"primary-key": "id", "bucket": "1"})
    service = harness(spark, path, expire_snapshots__retain_last="3", compact__strategy="full")
    service.serve("expire-snapshots")
    assert streamed(spark, path) == list(range(12))

    service.finish(service.asked("compact"))

    assert paimon.snapshots(path)[-1]["commitKind"] == "COMPACT"
    assert (tags(lake), streamed(spark, path)) == (["over"], list(range(12)))


def changelog_table(lake: Lake, producer: str, options: dict[str, str]) -> Path:
    """Changelogs are kept longer than snapshots; a tag whose time is over is at the snapshot before a compaction."""
    kept = {"snapshot.time-retained": "1 h", "changelog.time-retained": "30 d", "changelog-producer": producer}
    path = lake.create("tagged", {**paimon.WRITE_ONLY, **kept, **options})
    writer = Writer(lake.spark, path)
    for number in range(6):
        writer.append([number])
    lake.sql("CALL lake.sys.create_tag(table => 'shop.tagged', tag => 'over', snapshot => 6, time_retained => '1 d')")
    harness(lake.spark, path).serve("compact")
    for number in range(6, 12):
        writer.append([number])
    paimon.age(path, 3, but=3)
    paimon.age_tags(path, 10)
    return path


def lake_rows(spark: SparkSession, path: Path) -> int:
    return paimon.facts(spark, path)[0]


def streamed(spark: SparkSession, path: Path) -> list[int]:
    """The keys that a stream reads which was stopped before the second snapshot."""
    writer, found = Writer(spark, path), [0]
    table = writer.table()
    scan = table.newStreamScan()
    scan.restore(2)
    while scan.checkpoint() is None or scan.checkpoint() <= table.snapshotManager().latestSnapshotId():
        for split in scan.plan().splits():
            rows = writer.jvm.org.apache.paimon.reader.RecordReaderIterator(table.newRead().createReader(split))
            while rows.hasNext():
                found.append(int(rows.next().getInt(0)))
            rows.close()
    return sorted(found)


WRONG: dict[str, tuple[Any, str]] = {
    "a person's tag": ([{"name": "kept", "why": "time"}], "has no time of its own: it is never deleted"),
    "a person's tag by number": ([{"name": "kept", "why": "number"}], "is not an automatic one"),
    "nothing": (None, "does not say which tags"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_job_never_deletes_a_tag_of_a_person(spark: SparkSession, lake: Lake, case: str) -> None:
    asked, why = WRONG[case]
    service = harness(spark, path_of(lake))
    operation = admitted(service)
    signs = {tag.name: tag.sign for tag in service.runtime().snapshot().layout.signed_tags()}  # type: ignore[attr-defined]
    listed = [{**one, "sign": signs[one["name"]]} for one in asked] if asked else asked
    operation.process.parameters["tags"] = listed  # type: ignore[index]

    with pytest.raises(Exception, match=why) as caught:
        service.execute(operation)

    assert service.failure(operation, caught.value).reason == "refused"
    assert len(tags(lake)) == 4


@pytest.mark.long
def test_automatic_tags_beyond_the_set_number_go(spark: SparkSession, lake: Lake) -> None:
    path = path_of(lake)
    lake.sql("ALTER TABLE {shop}.tagged SET TBLPROPERTIES ('tag.automatic-creation'='process-time')")
    for day in range(1, 10):
        shutil.copy(path / "tag" / "tag-kept", path / "tag" / f"tag-2024-01-0{day}")
    for file in path.glob("tag/tag-2024*"):
        own = json.loads(file.read_text())
        file.write_text(json.dumps({**own, "timeMillis": own["timeMillis"] - 10 * 86_400_000}))
    service = harness(spark, path, expire_tags__retain_auto="7")
    assert isinstance(service.wants(ACTION), TableProcess)

    service.serve(ACTION)

    assert tags(lake) == [*(f"2024-01-0{day}" for day in range(3, 10)), "double", "kept"]
    assert rows(spark, lake, "2024-01-03") == 3
