# SPDX-License-Identifier: Apache-2.0
"""Paimon tables that lead out of themselves: by names in their metadata, by options, links and tables below them.

Every attack happens after the admission, which would refuse some of them: the job has to see it by itself.
"""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pytest
from pyspark.sql import SparkSession

from lakehand.jobs.boundary import JobBoundary, OutsideTable
from lakehand.jobs.paimon.outside import refuse_odd_options
from lakehand.spi import Operation
from lakehand.storage import read_records
from lakehand.testing.harness import PluginHarness
from tests import paimon_tables as paimon
from tests.attacks.scene import fingerprint, make_old
from tests.jobs.paimon.service import disturbed, harness
from tests.paimon_tables import Lake, Writer

spark_test = pytest.mark.spark
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")

ACTIONS = ("compact", "expire-snapshots", "remove-orphans")
COMPACTED, NEWEST = 7, 13  # snapshots
ABSENT = {
    ("compact", "name in an old snapshot"): "a compaction reads the newest snapshot only",
    ("compact", "table below"): "a compaction lists no folder",
    ("expire-snapshots", "table below"): "an expiry lists no folder: it goes by the names in manifests",
    ("remove-orphans", "foreign file left and reported"): "orphans come from a listing of the table's own folders",
    (
        "expire-snapshots",
        "foreign file left and reported",
    ): "Paimon deletes by itself and cannot leave out a single file",
    (
        "every",
        "value of a partition",
    ): "Paimon escapes slashes in folders of partitions, and each begins with its column",
}


@pytest.fixture(scope="module")
def template(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six commits, a compaction of their files, six more commits, a file of nobody; all but 3 snapshots are old."""
    lake = Lake(spark, tmp_path_factory.mktemp("paimon_attacks"))
    lake.create("t")
    writer = Writer(spark, lake.path("t"))
    for number in range(6):
        writer.append([number])
    lake.sql("CALL lake.sys.compact(table => 'shop.t', options => 'write-only=true,compaction.max.file-num=6')")
    for number in range(6, 12):
        writer.append([number])
    (lake.path("t") / "bucket-0" / "data-orphan.parquet").write_text("orphan")
    paimon.age(lake.path("t"), 10, but=3)
    return lake.path("t")


@pytest.fixture
def table(template: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(template, tmp_path / "lake" / "shop.db" / "t"))


@pytest.fixture
def victim(template: Path, tmp_path: Path) -> Path:
    """Somebody else's folder: a real data file, and files with names as a table's folders have them."""
    folder = tmp_path / "victim"
    folder.mkdir()
    [first, *_] = sorted((template / "bucket-0").glob("data-*-0.parquet"))
    shutil.copy(first, folder / "v.parquet")
    shutil.copytree(template / "bucket-0", folder / "bucket-0")
    make_old(folder)
    return folder


@contextmanager
def nothing_changes(top: Path) -> Iterator[None]:
    """Neither outside nor in the table, to the last byte."""
    before = fingerprint(top)
    yield
    assert fingerprint(top) == before


def admitted(spark: SparkSession, table: Path, action: str, **asked: Any) -> tuple[PluginHarness, Operation]:
    subject = harness(spark, table, expire_snapshots__retain_last="1")
    return subject, subject.admitted(subject.asked(action, **asked))


def stopped(subject: PluginHarness, operation: Operation) -> str:
    with pytest.raises(OutsideTable) as caught:
        subject.execute(operation)
    return str(caught.value)


def rewrite(file: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change each record of a manifest or of a list of manifests, as somebody who may write to the table can."""
    data = file.read_bytes()
    schema, records = fastavro.reader(BytesIO(data)).writer_schema, list(read_records(data, str(file)))
    for record in records:
        change(record)
    out = BytesIO()
    fastavro.writer(out, schema or {}, records, codec="null")
    file.write_bytes(out.getvalue())
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)


def document(table: Path, number: int) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((table / "snapshot" / f"snapshot-{number}").read_text())
    return found


def change_document(key: str) -> Callable[[Path, int, str], None]:
    def change(table: Path, number: int, name: str) -> None:
        changed = {**document(table, number), key: name}
        (table / "snapshot" / f"snapshot-{number}").write_text(json.dumps(changed))
        (table / "snapshot" / f".snapshot-{number}.crc").unlink(missing_ok=True)

    return change


def change_list(table: Path, number: int, name: str) -> None:
    rewrite(table / "manifest" / document(table, number)["deltaManifestList"], lambda one: one.update(_FILE_NAME=name))


def change_entries(key: str, as_value: Callable[[str], object]) -> Callable[[Path, int, str], None]:
    def change(table: Path, number: int, name: str) -> None:
        lists = table / "manifest" / document(table, number)["deltaManifestList"]
        for manifest in read_records(lists.read_bytes(), str(lists)):
            file = table / "manifest" / manifest["_FILE_NAME"]
            rewrite(file, lambda entry: entry["_FILE"].update({key: as_value(name)}))

    return change


ATTACKS = {
    "data file": change_entries("_FILE_NAME", str),
    "extra file": change_entries("_EXTRA_FILES", lambda name: [name]),
    "manifest": change_list,
    "manifest list": change_document("deltaManifestList"),
    "index manifest": change_document("indexManifest"),
    "statistics": change_document("statistics"),
}
FORMS = {"climbing": "../../../../victim/v.parquet", "whole": "{victim}/v.parquet"}
TRIED = [*((attack, "whole") for attack in ATTACKS), ("data file", "climbing"), ("manifest list", "climbing")]


@spark_test
@pytest.mark.parametrize(("attack", "form"), TRIED)
@pytest.mark.parametrize("action", ACTIONS)
def test_a_name_in_the_metadata_that_leads_out_is_named_and_not_followed(
    request: pytest.FixtureRequest, spark: SparkSession, action: str, attack: str, form: str
) -> None:
    table, victim = request.getfixturevalue("table"), request.getfixturevalue("victim")
    name = FORMS[form].format(victim=victim)
    subject, operation = admitted(spark, table, action)
    ATTACKS[attack](table, NEWEST if action == "compact" else COMPACTED, name)
    with nothing_changes(victim.parent):
        assert f"names the file {name!r}, which would lead out" in stopped(subject, operation)


@spark_test
def test_a_dry_run_of_an_expiry_reads_no_foreign_file_either(spark: SparkSession, table: Path, victim: Path) -> None:
    subject, operation = admitted(spark, table, "expire-snapshots", dry_run=True)
    change_document("deltaManifestList")(table, 3, f"{victim}/v.parquet")
    with nothing_changes(victim.parent):
        assert f"names the file '{victim}/v.parquet'" in stopped(subject, operation)


@spark_test
def test_the_service_does_not_read_a_list_with_such_a_name(spark: SparkSession, table: Path, victim: Path) -> None:
    change_document("deltaManifestList")(table, NEWEST, f"{victim}/v.parquet")
    with pytest.raises(OSError, match="names a file that is not in its own folder"):
        harness(spark, table).wants("compact")


@spark_test
def test_an_index_file_whose_name_leads_out_is_named_and_not_followed(
    spark: SparkSession, tmp_path: Path, victim: Path
) -> None:
    """Deletion vectors are index files."""
    lake = Lake(spark, tmp_path / "lake")
    table = lake.create("d", {**paimon.WRITE_ONLY, "deletion-vectors.enabled": "true"})
    lake.append("d", 0, 20)
    lake.sql("DELETE FROM {shop}.d WHERE id < 5")
    lake.append("d", 20, 5)
    paimon.age(table, 10, but=1)
    work = [admitted(spark, table, action) for action in ("expire-snapshots", "remove-orphans")]
    [manifest] = {one["indexManifest"] for one in paimon.snapshots(table) if one.get("indexManifest")}
    rewrite(table / "manifest" / manifest, lambda one: one.update(_FILE_NAME=f"{victim}/v.parquet"))
    for subject, operation in work:
        with nothing_changes(tmp_path):
            assert f"{manifest} names the file '{victim}/v.parquet'" in stopped(subject, operation)


def set_option(table: Path, key: str, value: str, *, number: int = 0) -> None:
    """A change of options is a new schema, as Paimon makes one; the first stays as it was."""
    schema = json.loads((table / "schema" / f"schema-{number}").read_text())
    schema["options"][key], schema["id"] = value, number + 1
    (table / "schema" / f"schema-{number + 1}").write_text(json.dumps(schema))


@spark_test
@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("option", [("path", "{victim}"), ("data-file.prefix", "../../../../victim/new-")])
def test_an_option_that_moves_the_data_out_is_named_and_not_obeyed(
    spark: SparkSession, table: Path, victim: Path, action: str, option: tuple[str, str]
) -> None:
    key, value = option[0], option[1].format(victim=victim)
    subject, operation = admitted(spark, table, action)
    set_option(table, key, value)
    with nothing_changes(victim.parent):
        assert f"schema-1 has the option {key}={value!r}" in stopped(subject, operation)


HERE = JobBoundary(location="/lake/t", real="/lake/t", warehouses=("/lake",), extra=("/lake/more",))
OPTIONS = {
    ("path", "/lake/t"): True,
    ("path", "file:/lake/t"): True,
    ("path", "/lake/t/inside"): False,
    ("branch", "main"): True,
    ("branch", "x/../../../../victim"): False,
    ("branch", "other"): False,
    ("data-file.prefix", "data-"): True,
    ("data-file.prefix", "/victim/data-"): False,
    ("changelog-file.prefix", "../x-"): False,
    ("data-file.path-directory", "data"): False,
    ("data-file.external-paths", "/lake/t/data"): False,
    ("data-file.external-paths.strategy", "round-robin"): False,
    ("some.option.of.tomorrow", "s3://other/place"): False,
    ("some.option.of.tomorrow", "/lake/t/a,/elsewhere/b"): False,
    ("some.option.of.tomorrow", "/lake/t/a, /lake/more/b"): True,
    ("partition.timestamp-formatter", "yyyy/MM/dd"): True,
    ("kafka.bootstrap.servers", "a:9092,b:9092"): True,
    ("fields.note.default-value", "/etc"): True,
    ("comment", "see /etc or http://x"): True,
}


@pytest.mark.parametrize("option", OPTIONS, ids="=".join)
def test_options_stay_inside_or_are_refused_by_their_name(option: tuple[str, str]) -> None:
    key, value = option
    if OPTIONS[option]:
        refuse_odd_options(HERE, {key: value}, "schema-0")
        return
    with pytest.raises(OutsideTable, match=f"schema-0 has the option {key}="):
        refuse_odd_options(HERE, {key: value}, "schema-0")


def swap_content(table: Path, other: Path) -> None:
    """The same folder, so that its inode is the same, with the content of another table."""
    for folder in table.iterdir():
        shutil.rmtree(folder)
    shutil.copytree(other, table, dirs_exist_ok=True)


@pytest.fixture
def twin(template: Path, tmp_path: Path) -> Path:
    """A table that was made a millisecond later, and is the same in all else."""
    path = Path(shutil.copytree(template, tmp_path / "twin"))
    schema = json.loads((path / "schema" / "schema-0").read_text())
    schema["timeMillis"] += 1
    (path / "schema" / "schema-0").write_text(json.dumps(schema))
    (path / "schema" / ".schema-0.crc").unlink(missing_ok=True)
    return path


@spark_test
@pytest.mark.parametrize("action", ACTIONS)
def test_another_table_in_the_same_folder_is_not_worked_on(
    spark: SparkSession, table: Path, twin: Path, action: str
) -> None:
    subject, operation = admitted(spark, table, action)
    swap_content(table, twin)
    with nothing_changes(twin.parent):
        assert f"another table is at {table} now" in stopped(subject, operation)


@spark_test
@pytest.mark.parametrize("folder", ["in", "bucket-0/in", "p=7", "manifest/in", "branch/in"])
def test_a_table_in_a_folder_that_paimon_lists_is_named_and_left_alone(
    spark: SparkSession, table: Path, template: Path, folder: str
) -> None:
    subject, operation = admitted(spark, table, "remove-orphans")
    shutil.copytree(template, table / folder)
    make_old(table / folder)
    with nothing_changes(table.parent.parent.parent):
        assert f"a paimon table lies below this one, at {table / folder} " in stopped(subject, operation)


@spark_test
@pytest.mark.parametrize("action", ACTIONS)
def test_a_branch_that_is_a_link_is_named_and_not_followed(
    spark: SparkSession, table: Path, twin: Path, action: str
) -> None:
    subject, operation = admitted(spark, table, action)
    (table / "branch").mkdir()
    (table / "branch" / "branch-own").symlink_to(twin)
    with nothing_changes(twin.parent):
        assert f"{table}/branch/branch-own is a link to {twin}" in stopped(subject, operation)


MOMENTS = {
    "compact": ("packing", {}),
    "sort": ("committing", {"strategy": "sort", "order-columns": "id"}),
    "expire-snapshots": ("expiring", {}),
    "remove-orphans": ("deleting", {}),
}


@spark_test
@pytest.mark.parametrize("attack", ["link", "content"])
@pytest.mark.parametrize("work", MOMENTS)
def test_what_happens_in_the_middle_of_the_job_is_seen_before_it_commits_or_deletes(
    request: pytest.FixtureRequest, spark: SparkSession, work: str, attack: str
) -> None:
    table, twin = request.getfixturevalue("table"), request.getfixturevalue("twin")
    (moment, options), outside = MOMENTS[work], {}
    _, operation = admitted(spark, table, "compact" if work == "sort" else work, options=options)

    def meddle() -> None:
        if attack == "content" and work != "remove-orphans":
            swap_content(table, twin)
        else:  # the files to delete are known by then: what can be changed is where their names lead
            (table / "bucket-0").rename(twin / "bucket-1")
            (table / "bucket-0").symlink_to(twin / "bucket-1")
        outside.update(fingerprint(twin.parent))

    with pytest.raises(OutsideTable, match=r"another table is at|is a link to|files outside of"):
        disturbed(spark, operation, moment, meddle)
    now = fingerprint(twin.parent)
    assert {name: now.get(name) for name in outside} == outside
