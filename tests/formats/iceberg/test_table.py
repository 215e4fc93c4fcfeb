# SPDX-License-Identifier: Apache-2.0
"""Reading tables by path: the newest metadata is found as Iceberg finds it."""

import gzip
from pathlib import Path

import pytest

from lakehand.formats.iceberg import IcebergFormat
from lakehand.formats.iceberg.manifests import DATA, ContentFile, ManifestCache
from lakehand.formats.iceberg.snapshot import resolve
from lakehand.spi import Finding, Skip
from tests.formats.iceberg.made import WrittenTable, snapshot
from tests.kit.sentences import Sentences


@pytest.fixture
def written(tmp_path: Path) -> WrittenTable:
    return WrittenTable(folder=tmp_path / "t")


def test_numbers_show_what_the_files_are(written: WrittenTable) -> None:
    written.commit()
    numbers = IcebergFormat().inspect(written.reference).numbers

    shown = {key: numbers[key] for key in ("files", "small_files", "rows", "manifests", "snapshots", "delete_files")}
    assert shown == {"files": 2, "small_files": 2, "rows": 10, "manifests": 2, "snapshots": 2, "delete_files": 0}
    assert numbers["bytes"] == sum(file.stat().st_size for file in written.folder.glob("data/**/*.parquet"))
    assert numbers["histogram"] == {**dict.fromkeys(numbers["histogram"], 0), "< 1 MB": 2}  # type: ignore[arg-type]


def test_a_hint_that_lags_behind_is_not_believed(written: WrittenTable) -> None:
    before = IcebergFormat().probe(written.reference)
    written.table.append(written.table.scan().to_arrow())
    written.publish(hint=1)

    assert IcebergFormat().probe(written.reference) != before
    assert len(IcebergFormat().inspect(written.reference).commits) == 2


@pytest.mark.parametrize("name", ["v2.gz.metadata.json", "v2.metadata.json.gz"])
def test_packed_metadata_is_read(name: str, written: WrittenTable) -> None:
    written.commit()
    metadata = written.folder / "metadata"
    (metadata / name).write_bytes(gzip.compress((metadata / "v2.metadata.json").read_bytes()))
    (metadata / "v2.metadata.json").unlink()

    assert len(IcebergFormat().inspect(written.reference).commits) == 2


def test_without_a_hint_the_highest_number_counts(written: WrittenTable) -> None:
    for _ in range(9):
        written.publish()
    (written.folder / "metadata" / "version-hint.text").unlink()

    assert IcebergFormat().inspect(written.reference).metadata_location.endswith("/v10.metadata.json")


def test_a_table_of_a_catalog_is_shown_by_its_path_and_not_touched(written: WrittenTable, sentences: Sentences) -> None:
    for file in [*written.folder.glob("metadata/v*.json"), written.folder / "metadata" / "version-hint.text"]:
        file.unlink()

    assert IcebergFormat().inspect(written.reference).numbers["files"] == 1
    answer = written.harness().wants("rewrite-data")
    assert isinstance(answer, Skip)
    sentences.check("a table of an unknown catalog", answer.reason)


def test_a_file_that_is_no_metadata_cannot_be_read(written: WrittenTable) -> None:
    file = written.folder / "metadata" / "v1.metadata.json"
    file.write_text('{"format-ver')
    with pytest.raises(OSError, match=file.name):
        IcebergFormat().inspect(written.reference)
    operation = written.harness().asked("rewrite-data")
    verdict = written.harness().verdict(operation, {})
    assert verdict.finding is Finding.UNREADABLE


def test_manifests_are_read_once(written: WrittenTable, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = IcebergFormat()
    assert len(reader.inspect(written.reference).files) == 1
    for manifest in written.folder.glob("metadata/*-m0.avro"):
        manifest.unlink()

    assert len(reader.inspect(written.reference).files) == 1


def test_the_cache_of_manifests_has_an_end() -> None:
    memory, file = ManifestCache(limit=10), ContentFile("f", 1, 1, (0,), 1, DATA, False, None)
    for number in range(9):
        memory.keep(f"m{number}", [file] * 3)

    assert [number for number in range(9) if memory.get(f"m{number}")] == [7, 8]


def test_paths_without_a_scheme_are_of_the_storage_that_names_them() -> None:
    assert resolve("/a/m.avro", "hdfs://names/t/metadata/v1.metadata.json") == "hdfs://names/a/m.avro"
    assert resolve("/a/m.avro", "/t/metadata/v1.metadata.json") == "/a/m.avro"
    assert resolve("s3a://b/m.avro", "s3://b/t/metadata/v1.metadata.json") == "s3a://b/m.avro"


def test_a_table_without_a_commit_has_numbers() -> None:
    assert snapshot().numbers["files"] == 0
    assert snapshot().numbers["oldest_snapshot"] is None
