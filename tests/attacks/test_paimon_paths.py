# SPDX-License-Identifier: Apache-2.0
"""Paimon tables that lead out of themselves: by names in their metadata, by options, links and tables below them.

Every attack happens after the admission, which would refuse some of them: the job has to see it by itself. What is
refused, and however it is spelled, is shown without Spark: ``test_paimon_guards.py``. Attacks that do not exist: names
in old snapshots for a compaction, which reads the newest one; tables below for what goes by names in manifests.
"""

import json
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pytest
from pyspark.sql import SparkSession

from lakehand.jobs.boundary import OutsideTable
from lakehand.storage import read_records
from tests import paimon_tables as paimon
from tests.attacks.real_tables import COMPACTED, NEWEST, RealTable
from tests.attacks.scene import nothing_changes
from tests.jobs.paimon.service import harness
from tests.kit.tiers import long_values
from tests.paimon_tables import Lake

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")]


@pytest.fixture
def real(real_table: Callable[[str], RealTable]) -> RealTable:
    real = real_table("paimon")
    real.put_back()
    return real


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


def manifests(table: Path, number: int) -> Iterator[Path]:
    lists = table / "manifest" / document(table, number)["deltaManifestList"]
    for manifest in read_records(lists.read_bytes(), str(lists)):
        yield table / "manifest" / manifest["_FILE_NAME"]


def change_entries(key: str, as_value: Callable[[str], object]) -> Callable[[Path, int, str], None]:
    def change(table: Path, number: int, name: str) -> None:
        for file in manifests(table, number):
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
# All that a compaction meets in the newest snapshot; the other two meet one in each of their ways through the history.
TRIED = [
    *(("compact", attack) for attack in ATTACKS),
    ("expire-snapshots", "data file"),
    ("remove-orphans", "data file"),
]


@pytest.mark.parametrize(("action", "attack"), TRIED)
def test_a_name_in_the_metadata_that_leads_out_is_named_and_not_followed(
    real: RealTable, action: str, attack: str
) -> None:
    name = f"{real.outside}/victim.parquet"
    operation = real.admitted(action)
    ATTACKS[attack](real.path, NEWEST if action == "compact" else COMPACTED, name)
    assert f"names the file {name!r}, which would lead out" in real.stopped(operation)


def test_a_dry_run_of_an_expiry_reads_no_foreign_file_either(real: RealTable) -> None:
    operation = real.admitted("expire-snapshots", dry_run=True)
    change_document("deltaManifestList")(real.path, 3, f"{real.outside}/victim.parquet")
    assert f"names the file '{real.outside}/victim.parquet'" in real.stopped(operation)


@pytest.mark.long
def test_an_index_file_whose_name_leads_out_is_named_and_not_followed(spark: SparkSession, tmp_path: Path) -> None:
    """Deletion vectors are index files."""
    lake = Lake(spark, tmp_path / "lake")
    table = lake.create("d", {**paimon.WRITE_ONLY, "deletion-vectors.enabled": "true"})
    lake.append("d", 0, 20)
    lake.sql("DELETE FROM {shop}.d WHERE id < 5")
    lake.append("d", 20, 5)
    paimon.age(table, 10, but=1)
    subject = harness(spark, table, expire_snapshots__retain_last="1")
    work = [subject.admitted(subject.asked(action)) for action in ("expire-snapshots", "remove-orphans")]
    [manifest] = {one["indexManifest"] for one in paimon.snapshots(table) if one.get("indexManifest")}
    rewrite(table / "manifest" / manifest, lambda one: one.update(_FILE_NAME="/victim/v.parquet"))
    for operation in work:
        with nothing_changes(tmp_path), pytest.raises(OutsideTable, match=f"{manifest} names the file '/victim/v.par"):
            subject.execute(operation)


@pytest.mark.parametrize("action", ["compact", *long_values("expire-snapshots", "remove-orphans")])
def test_an_option_that_moves_the_data_out_is_named_and_not_obeyed(real: RealTable, action: str) -> None:
    """Seen before Paimon opens the table."""
    operation = real.admitted(action)
    schema = json.loads((real.path / "schema" / "schema-0").read_text())
    schema["options"]["path"], schema["id"] = str(real.outside), 1
    (real.path / "schema" / "schema-1").write_text(json.dumps(schema))
    assert f"schema-1 has the option path='{real.outside}'" in real.stopped(operation)


# The last step before each function that commits or deletes: what happens there is seen right after it.
STEPS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "pack": ("compact", "packing", {}),
    "sort": ("compact", "committing", {"strategy": "sort", "order-columns": "id"}),
    "expire": ("expire-snapshots", "expiring", {}),
    "remove": ("remove-orphans", "deleting", {}),
}


@pytest.mark.parametrize("work", STEPS)
def test_a_folder_that_becomes_a_link_in_the_middle_stops_the_job(real: RealTable, work: str) -> None:
    action, step, options = STEPS[work]
    operation = real.admitted(action, options=options)
    bucket, moved = real.path / "bucket-0", real.outside / "bucket-1"

    def attack() -> None:
        bucket.rename(moved)
        bucket.symlink_to(moved)

    said = real.stopped(operation, step, attack)
    assert f"{bucket} is a link to {moved}" in said or f"files outside of {real.path}" in said


@pytest.mark.parametrize("work", ["expire", *long_values("pack", "sort")])
def test_another_table_that_comes_in_the_middle_stops_the_job(real: RealTable, work: str) -> None:
    """The same but for the moment at which it was made. (The files that orphan removal deletes are known by then.)"""
    action, step, options = STEPS[work]
    file = real.path / "schema" / "schema-0"
    made = json.loads(file.read_text())

    def attack() -> None:
        file.write_text(json.dumps({**made, "timeMillis": made["timeMillis"] + 1}))
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)

    assert f"another table is at {real.path} now" in real.stopped(real.admitted(action, options=options), step, attack)
