# SPDX-License-Identifier: Apache-2.0
"""Reading logs: real tables of another writer, checkpoints of each kind, and what is damaged or gone."""

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyarrow import parquet

from lakehand.formats.delta import DeltaFormat
from lakehand.formats.delta.files import LiveFile
from lakehand.spi import Invalid, TableReference
from tests.formats.delta.logs import MB, LogTable, add, adds, remove
from tests.kit.sentences import Sentences


def written(path: Path, commits: int = 3, files: int = 4) -> Path:
    """A table of the writer that is not a JVM."""
    for number in range(commits):
        rows = pa.table({"id": list(range(files)), "p": [f"p {n}/%" for n in range(files)], "n": [number] * files})
        write_deltalake(str(path), rows, mode="append", partition_by=["p"])
    return path


def read(path: Path) -> dict[str, LiveFile]:
    return dict(DeltaFormat().inspect(TableReference(location=str(path))).files)


def files_by_library(path: Path) -> dict[str, tuple[int, int]]:
    found = pa.table(DeltaTable(str(path)).get_add_actions()).to_pylist()
    return {str(one["path"]): (one["size_bytes"], int(one["modification_time"])) for one in found}


@pytest.mark.parametrize("checkpoint", [False, True])
def test_the_files_are_those_that_the_library_lists(tmp_path: Path, checkpoint: bool) -> None:
    path = written(tmp_path / "t")
    DeltaTable(str(path)).delete("id = 2")
    if checkpoint:
        DeltaTable(str(path)).create_checkpoint()
        written(path, commits=1)

    found = read(path)

    assert {file.path: (file.size, file.modified) for file in found.values()} == files_by_library(path)
    assert {file.partition for file in found.values() if "p=p%25200" in file.path} == {(("p", "p 0/%"),)}


def test_a_checkpoint_changes_no_number(tmp_path: Path) -> None:
    path = written(tmp_path / "t")
    DeltaTable(str(path)).delete("id = 2")
    before = dict(DeltaFormat().inspect(TableReference(location=str(path))).numbers)
    DeltaTable(str(path)).create_checkpoint()
    for commit in (path / "_delta_log").glob("*.json"):
        if int(commit.stem) < 3:
            commit.unlink()

    after = dict(DeltaFormat().inspect(TableReference(location=str(path))).numbers)

    changed = {key for key in before if before[key] != after[key]}
    assert changed == {"snapshots", "oldest_snapshot"}, "the versions that nobody can travel to any more"
    assert after["snapshots"] == 1


def test_a_new_deletion_vector_replaces_the_file_and_leaves_no_tombstone(tmp_path: Path) -> None:
    table = LogTable(tmp_path / "t", [add("a", MB)])
    table.commit(add("a", MB, deleted=5), remove("a", days_ago=1))

    snapshot = table.snapshot()

    assert [(file.path, file.deleted, file.rows) for file in snapshot.files.values()] == [("a", 5, 1000)]
    assert (snapshot.numbers["deletion_vectors"], snapshot.numbers["tombstones"]) == (1, 0)


def test_health_is_shown_in_numbers(tmp_path: Path) -> None:
    table = LogTable(tmp_path / "t", [*adds(3, MB // 2), *adds(2, 200 * MB, prefix="large")], days_ago=30)
    table.commit(remove("part-0.parquet", MB // 2, days_ago=2), add("more", 40 * MB, deleted=7))

    numbers = table.snapshot().numbers

    assert {key: numbers[key] for key in ("files", "small_files", "deletion_vectors", "deleted_rows", "version")} == {
        "files": 5, "small_files": 3, "deletion_vectors": 1, "deleted_rows": 7, "version": 1,
    }  # fmt: skip
    assert numbers["histogram"] == {
        "< 1 MB": 2, "1-8 MB": 0, "8-32 MB": 0, "32-128 MB": 1, "128-512 MB": 2, ">= 512 MB": 0,
    }  # fmt: skip
    assert (numbers["snapshots"], numbers["oldest_snapshot"]) == (2, "2026-10-16T12:00:00+00:00")
    assert (numbers["tombstones"], numbers["tombstone_bytes"]) == (1, MB // 2)


def test_a_table_that_was_dropped_and_recreated_has_another_change_token(tmp_path: Path) -> None:
    reader, table = DeltaFormat(), LogTable(tmp_path / "t", adds(3, MB))
    table.commit(add("x", MB))
    first = reader.probe(table.reference)
    shutil.rmtree(table.path)
    shorter = LogTable(tmp_path / "t", adds(2, MB))
    second = reader.probe(shorter.reference)
    shorter.commit(add("something else", MB))

    assert len({first, second, reader.probe(shorter.reference)}) == 3


def test_a_known_table_is_not_listed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader, table = DeltaFormat(), LogTable(tmp_path / "t")
    sign = reader.probe(table.reference)
    monkeypatch.setattr("lakehand.storage.LocalStorage.names", lambda *_: pytest.fail("listed"))
    assert reader.probe(table.reference) == sign


@pytest.mark.parametrize("damage", [b'{"add": {"path"', b"not json\n"])
def test_a_commit_that_cannot_be_read_is_a_failure_of_storage(tmp_path: Path, damage: bytes) -> None:
    table = LogTable(tmp_path / "t")
    table.commit(add("x", MB))
    table.file(1).write_bytes(damage)
    with pytest.raises(OSError, match=table.file(1).name):
        _ = table.snapshot().numbers


def test_a_commit_that_is_missing_is_a_failure_of_storage(tmp_path: Path) -> None:
    table = LogTable(tmp_path / "t")
    table.commit(add("x", MB))
    table.commit(add("y", MB))
    table.file(1).unlink()
    with pytest.raises(FileNotFoundError, match=table.file(1).name):
        _ = table.snapshot().numbers


def test_a_checkpoint_that_cannot_be_read_is_a_failure_of_storage(tmp_path: Path) -> None:
    path = written(tmp_path / "t", commits=1)
    DeltaTable(str(path)).create_checkpoint()
    [checkpoint] = (path / "_delta_log").glob("*.parquet")
    checkpoint.write_bytes(checkpoint.read_bytes()[:-20])
    with pytest.raises(OSError, match=r"\w"):
        _ = DeltaFormat().inspect(TableReference(location=str(path))).numbers


def test_an_empty_log_is_no_table(tmp_path: Path, sentences: Sentences) -> None:
    (tmp_path / "t" / "_delta_log").mkdir(parents=True)
    with pytest.raises(Invalid) as refused:
        DeltaFormat().inspect(TableReference(location=str(tmp_path / "t")))
    sentences.check("an empty log", str(refused.value), folder=tmp_path / "t")


def test_a_commit_without_commit_info_is_read(tmp_path: Path, sentences: Sentences) -> None:
    table = LogTable(tmp_path / "t", adds(30, MB))
    file = table.file(0)
    file.write_text("".join(line for line in file.read_text().splitlines(True) if "commitInfo" not in line))
    assert table.snapshot().numbers["oldest_snapshot"] is None
    found = {"small": 30, "files": 30, "under": "96.0 MB", "size": "30.0 MB", "inputs": 30, "outputs": 1}
    sentences.check("small files", table.wanted("optimize").reason, **found)


def test_a_log_that_holds_only_a_checkpoint_is_a_table(tmp_path: Path) -> None:
    path = tmp_path / "t"
    for number in range(3):
        write_deltalake(str(path), pa.table({"id": [number]}), mode="append")
    whole = DeltaFormat().inspect(TableReference(location=str(path)))
    assert len(whole.files) == 3
    DeltaTable(str(path)).create_checkpoint()
    for commit in (path / "_delta_log").glob("*.json"):
        commit.unlink()
    reader = DeltaFormat()

    left = reader.inspect(TableReference(location=str(path)))

    assert (left.version, set(left.files), left.numbers["snapshots"]) == (2, set(whole.files), 1)
    assert (left.identity, left.size) == (whole.identity, whole.size)
    assert reader.probe(TableReference(location=str(path))) == left.token
    (path / "_delta_log" / f"{3:020d}.json").write_text('{"commitInfo":{"timestamp":1}}\n')
    assert reader.probe(TableReference(location=str(path))) != left.token
    assert len(reader.inspect(TableReference(location=str(path))).files) == 3


def write_checkpoint(table: LogTable, *rows: dict[str, Any], schema: pa.Schema) -> None:
    whole = [dict.fromkeys(schema.names) | row for row in rows]
    name = table.file(table.version).with_suffix(".checkpoint.parquet")
    parquet.write_table(pa.Table.from_pylist(whole, schema=schema), name)


def test_clustering_columns_and_configuration_are_read_from_a_checkpoint(tmp_path: Path) -> None:
    """Both have a field called configuration: a text in domain metadata, a map in the metadata of the table."""
    table = LogTable(tmp_path / "t", adds(1, MB))
    text, number = pa.string(), pa.int32()
    schema = pa.schema(
        {
            "protocol": pa.struct({"minReaderVersion": number, "minWriterVersion": number}),
            "metaData": pa.struct({"id": text, "configuration": pa.map_(text, text)}),
            "domainMetadata": pa.struct({"domain": text, "configuration": text}),
        }
    )
    clustering = {"domain": "delta.clustering", "configuration": '{"clusteringColumns": [["id"]]}'}
    metadata = {"id": "8f2f", "configuration": [("delta.appendOnly", "true")]}
    protocol = {"minReaderVersion": 1, "minWriterVersion": 7}
    actions: list[dict[str, Any]] = [{"protocol": protocol}, {"metaData": metadata}, {"domainMetadata": clustering}]
    write_checkpoint(table, *actions, schema=schema)

    read = table.snapshot()

    assert (read.clustering_columns, read.configuration) == (("id",), {"delta.appendOnly": "true"})
