# SPDX-License-Identifier: Apache-2.0
"""A large metadata file: parsed outside of the service, and every decision is the same as from all of it."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from lakehand.formats.iceberg import IcebergFormat, expire_snapshots, metadata
from lakehand.formats.iceberg.commits import RECENT, CommitRows, ancestors
from lakehand.formats.iceberg.rewrites import history_of
from lakehand.formats.iceberg.snapshot import IcebergSnapshot
from lakehand.spi import Invalid, TableReference
from lakehand.storage import Storages
from tests.formats.iceberg.made import NOON, ago, branch, tag

COUNT = RECENT + 300
BOUND = 10_000  # bytes, instead of some megabytes


def snapshot_of(number: int) -> dict[str, Any]:
    own = {"lakehand-operation": f"{number}-x"} if number % 100 == 0 else {}
    kind = {"operation": "overwrite" if number % 7 == 0 else "append", "spark.app.id": f"app-{number}", **own}
    flink = {"flink.job-id": "job", "flink.operator-id": "sink"} if number == 40 else {}
    return {
        "snapshot-id": 10**15 + number, "timestamp-ms": ago(minutes=COUNT - number), "schema-id": 0,
        "manifest-list": f"/t/metadata/{number}.avro",
        **({"parent-snapshot-id": 10**15 + number - 1} if number else {}),
        "summary": {**kind, **flink, "added-records": str(number), "total-data-files": "3"},
    }  # fmt: skip


@pytest.fixture
def table(tmp_path: Path) -> Path:
    head = 10**15 + COUNT - 1
    document = {
        "snapshots": [snapshot_of(number) for number in range(COUNT)], "format-version": 2, "table-uuid": "u",
        "location": str(tmp_path), "properties": {"a": "b"}, "default-spec-id": 0, "current-schema-id": 0,
        "schemas": [{"schema-id": 0, "fields": [{"id": 1, "name": "id", "type": "long"}]}],
        "refs": {"main": branch(head), **{f"t{number}": tag(10**15 + number * 3) for number in range(100)}},
        "current-snapshot-id": head, "snapshot-log": [{"snapshot-id": number} for number in range(COUNT)],
    }  # fmt: skip
    file = tmp_path / "metadata" / "v1.metadata.json"
    file.parent.mkdir()
    file.write_text(json.dumps(document))
    (file.parent / "version-hint.text").write_text("1")
    return tmp_path


def facts(snapshot: IcebergSnapshot) -> dict[str, Any]:
    """What decisions and verdicts read of the history."""
    kept = expire_snapshots.SnapshotRetention(ago(), 3_600_000, 1, 86_400_000 * 30)
    history = history_of(snapshot, NOON)
    current = snapshot.current
    assert current is not None
    return {
        "line": [(one.id, one.parent, one.at) for one in ancestors(snapshot.commits, current.id)],
        "current": current, "refs": snapshot.refs, "totals": snapshot.totals(), "properties": snapshot.properties,
        "history": snapshot.history_numbers(), "tagged": snapshot.tagged("500-x")[0].summary["added-records"],
        "gone": [one.id for one in expire_snapshots.expirable(snapshot, kept)], "rewrites": sorted(history.rewrites),
        "writes": sorted(history.writes), "row level": history.has_row_level_writers,
        "added": [snapshot.commits[10**15 + number].summary["added-records"] for number in range(300, COUNT)],
    }  # fmt: skip


@pytest.mark.parametrize("packed", [False, True])
def test_a_large_file_leads_to_the_same_decisions(table: Path, packed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    reference = TableReference(location=str(table))
    whole = facts(IcebergFormat().inspect(reference))
    file = table / "metadata" / "v1.metadata.json"
    if packed:
        file.with_name("v1.gz.metadata.json").write_bytes(gzip.compress(file.read_bytes()))
        file.unlink()
    monkeypatch.setattr(metadata, "IN_PROCESS", BOUND)
    monkeypatch.setattr(metadata, "parse_json", None)  # not called: the service parses pieces alone

    large = IcebergFormat().inspect(reference)

    assert isinstance(large.commits, CommitRows)
    found = facts(large)
    for key, value in whole.items():
        if key != "current":
            assert found[key] == value, key
    assert found["current"].manifest_list == whole["current"].manifest_list
    assert "snapshot-log" not in large.metadata
    assert len(large.metadata["snapshots"]) == 1


@pytest.mark.parametrize("document", [[1] * 100, {"snapshots": [1] * 100}, {"snapshots": [{"summary": {}}] * 100}])
def test_a_large_file_that_is_no_metadata_is_an_error_about_it(
    tmp_path: Path, document: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "f"
    file.write_text(json.dumps(document))
    monkeypatch.setattr(metadata, "IN_PROCESS", 10)
    with pytest.raises((OSError, Invalid), match=f"{file} .*is not the metadata of an Iceberg table"):
        metadata.read_metadata(Storages({}), str(file))
