# SPDX-License-Identifier: Apache-2.0
"""When statistics of a table and of its partitions are computed, and what shows that they were."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakehand.formats.iceberg import IcebergProcessFactory
from lakehand.formats.iceberg.snapshot import IcebergSnapshot
from lakehand.spi import Action, Finding, Operation, Skip, TableProcess
from tests.formats.iceberg.made import MadeRuntime, ago, commit, snapshot
from tests.formats.iceberg.test_decisions import ended, operation
from tests.kit.sentences import Sentences

TABLE, PARTITIONS = "compute-statistics", "compute-partition-statistics"
WHAT = {TABLE: "statistics", PARTITIONS: "partition statistics"}
UNIT = {TABLE: "rows", PARTITIONS: "files"}
LISTS = {TABLE: "statistics", PARTITIONS: "partition-statistics"}
BOTH = pytest.mark.parametrize("action", [TABLE, PARTITIONS])
FIELDS = {"id": "long", "p": "string", "place": {"type": "struct", "fields": []}, "odd.name": "string", "v": "variant"}


def changing(*changes: int, **more: Any) -> IcebergSnapshot:
    """Snapshots 1, 2, ... of a table with 1000 rows in 1000 files; each but the first adds so many of both."""
    total = {
        "total_records": "1000",
        "total_data_files": "1000",
        "total_files_size": "5000000",
        "total_delete_files": "0",
    }
    added = [{"added_records": str(count), "added_data_files": str(count), **total} for count in (1000, *changes)]
    made = snapshot(
        commits=[commit(at, ago(hours=30 - at), parent=at - 1 or None, **one) for at, one in enumerate(added, 1)]
    )
    fields = [{"id": at, "name": name, "type": kind} for at, (name, kind) in enumerate(FIELDS.items())]
    document = {
        "schemas": [{"schema-id": 0, "fields": fields}],
        "partition-specs": [{"fields": [{"transform": "identity"}]}],
        **more,
    }  # fmt: skip
    made.metadata.update(document)  # type: ignore[attr-defined]
    for one in made.metadata["snapshots"]:
        one["schema-id"] = 0
    return made


def with_statistics(made: IcebergSnapshot, action: str, number: int, file: Path) -> IcebergSnapshot:
    file.write_bytes(b"1234")
    blobs = [{"fields": [1]}, {"fields": [2]}]
    entry = {"snapshot-id": number, "statistics-path": str(file), "file-size-in-bytes": 4, "blob-metadata": blobs}
    return replace(made, metadata={**made.metadata, LISTS[action]: [entry]})


def wants(made: IcebergSnapshot, action: str, *history: Operation, **settings: str) -> TableProcess | Skip:
    return IcebergProcessFactory().trigger(MadeRuntime(made, history, **settings), Action(action))


def admitted(made: IcebergSnapshot, action: str, **settings: str) -> Operation:
    process = wants(made, action, **settings)
    assert isinstance(process, TableProcess), process
    stored = replace(operation(Action(action)), process=process)
    answer = IcebergProcessFactory().admit(MadeRuntime(made, **settings), stored)
    assert isinstance(answer, TableProcess), answer
    return replace(stored, process=answer)


@BOTH
def test_a_table_without_statistics_gets_some(action: str, sentences: Sentences) -> None:
    answer = wants(changing(1), action)
    assert isinstance(answer, TableProcess)
    sentences.check("no statistics", answer.reason, snapshots=2, what=WHAT[action])
    assert answer.job == f"iceberg.{action.replace('-', '_')}"


@BOTH
def test_statistics_of_the_current_snapshot_are_enough(action: str, tmp_path: Path, sentences: Sentences) -> None:
    answer = wants(with_statistics(changing(500, 500), action, 3, tmp_path / "s"), action)
    assert isinstance(answer, Skip)
    sentences.check("statistics of the current snapshot", answer.reason, snapshot=3, what=WHAT[action])


@BOTH
def test_statistics_are_near_enough_until_a_share_has_changed(
    action: str, tmp_path: Path, sentences: Sentences
) -> None:
    near = wants(with_statistics(changing(60, 30), action, 1, tmp_path / "s"), action)
    far = wants(with_statistics(changing(60, 40), action, 1, tmp_path / "s"), action)

    assert isinstance(near, Skip)
    counted = {"what": WHAT[action], "commits": 2, "unit": UNIT[action]}
    few = {"changed": 90, "share": "9.0%", "all": 1000, "needed": "10.0%"}
    sentences.check("statistics are near enough", near.reason, **counted, **few)
    assert isinstance(far, TableProcess)
    many = {"changed": 100, "share": "10.0%", "all": 1000}
    sentences.check("statistics are far off", far.reason, **counted, **many)


def test_a_rewrite_of_the_same_rows_counts_only_for_partitions(tmp_path: Path) -> None:
    made = changing(900)
    made.metadata["snapshots"][1]["summary"]["operation"] = "replace"
    assert isinstance(wants(with_statistics(made, TABLE, 1, tmp_path / "s"), TABLE), Skip)
    assert isinstance(wants(with_statistics(made, PARTITIONS, 1, tmp_path / "s"), PARTITIONS), TableProcess)


@BOTH
def test_a_statistics_file_that_was_lost_is_made_again(action: str, tmp_path: Path, sentences: Sentences) -> None:
    made = with_statistics(changing(1), action, 2, tmp_path / "s")
    (tmp_path / "s").write_bytes(b"123")  # cut off
    assert isinstance(wants(made, action), TableProcess)
    (tmp_path / "s").unlink()
    answer = wants(made, action)
    assert isinstance(answer, TableProcess)
    sentences.check("a statistics file was lost", answer.reason, what=WHAT[action], snapshot=2, commits=0)


@BOTH
def test_statistics_of_a_snapshot_that_is_no_ancestor_do_not_count(action: str, tmp_path: Path) -> None:
    assert isinstance(wants(with_statistics(changing(1), action, 77, tmp_path / "s"), action), TableProcess)


@BOTH
def test_a_table_that_changes_each_minute_is_not_read_each_minute(
    action: str, tmp_path: Path, sentences: Sentences
) -> None:
    made = with_statistics(changing(500), action, 1, tmp_path / "s")

    waiting = wants(made, action, ended(Action(action), hours=0.5))
    over = wants(made, action, ended(Action(action), hours=48))

    assert isinstance(waiting, Skip)
    assert waiting.look_again is not None
    found = {"what": WHAT[action], "commits": 1, "changed": 500, "unit": UNIT[action], "share": "50.0%", "all": 1000}
    left = "24 h" if action == TABLE else "30 min"
    sentences.check("statistics were computed not long ago", waiting.reason, **found, operation=7, left=left)
    assert isinstance(over, TableProcess)


def test_a_large_table_is_read_only_on_request(sentences: Sentences) -> None:
    made = changing(1)
    answer = wants(made, TABLE, compute_statistics__max_bytes="1MB")
    assert isinstance(answer, Skip)
    limit = {"size": "4.8 MB", "key": "iceberg.compute-statistics.max-bytes", "most": "1.0 MB"}
    sentences.check("too much to read for statistics", answer.reason, **limit)
    assert isinstance(wants(made, PARTITIONS, compute_statistics__max_bytes="1MB"), TableProcess)
    asked = operation(Action(TABLE), origin="api")
    runtime = MadeRuntime(made, compute_statistics__max_bytes="1MB")
    assert isinstance(IcebergProcessFactory().admit(runtime, asked), TableProcess)


def test_what_cannot_be_counted_is_refused_with_the_reason(sentences: Sentences) -> None:
    plain = changing(1, **{"partition-specs": [{"fields": [{"transform": "void"}]}]})
    answers = [
        wants(plain, PARTITIONS), wants(snapshot(), PARTITIONS), wants(snapshot(), TABLE),
        wants(snapshot(commits=[commit(1, ago(days=1), total_data_files="0")]), TABLE),
        wants(replace(changing(1), why_read_only="its catalog is not known"), TABLE),
    ]  # fmt: skip
    unpartitioned, *empty, unknown = [one.reason for one in answers if isinstance(one, Skip)]
    sentences.check("no partitions to count", unpartitioned)
    assert len(empty) == 3
    for reason in empty:
        sentences.check("no data files to count", reason)
    assert unknown == "its catalog is not known"
    assert isinstance(
        wants(changing(1, **{"partition-specs": None, "partition-spec": [{"transform": "day"}]}), PARTITIONS),
        TableProcess,
    )


def test_columns_are_those_that_iceberg_counts_or_the_ones_that_were_set() -> None:
    assert admitted(changing(1), TABLE).process.parameters["columns"] == ["id", "p"]
    chosen = admitted(changing(1), TABLE, compute_statistics__columns="p, place.x")
    assert chosen.process.parameters["columns"] == ["p", "place.x"]


@pytest.mark.parametrize(
    ("metadata", "settings", "case"),
    [
        ({}, {"compute_statistics__columns": "p,q"}, "no such column to count"),
        ({"schemas": [{"schema-id": 0, "fields": [{"name": "v", "type": "variant"}]}]}, {}, "no column to count"),
        ({"schemas": []}, {}, "an unknown schema"),
    ],
)
def test_a_request_that_names_no_columns_that_are_there_fails(
    metadata: dict[str, Any], settings: dict[str, str], case: str, sentences: Sentences
) -> None:
    asked = operation(Action(TABLE), origin="api")
    answer = IcebergProcessFactory().admit(MadeRuntime(changing(1, **metadata), **settings), asked)
    sentences.check(case, getattr(answer, "message", ""))


@BOTH
def test_a_file_that_was_not_there_before_is_the_proof(action: str, tmp_path: Path) -> None:
    made = changing(1)
    given = admitted(made, action)
    factory = IcebergProcessFactory()
    after = with_statistics(made, action, 2, tmp_path / "s")

    verdicts = [factory.verify(MadeRuntime(one), given.process, {}) for one in (made, after)]

    assert [one.finding for one in verdicts] == [Finding.NOT_DONE, Finding.DONE]
    assert verdicts[1].numbers["statistics"] == str(tmp_path / "s")
    assert factory.admit(MadeRuntime(after), given) == given.process, "a lost attempt has done it"
    assert isinstance(wants(after, action), Skip)
    (tmp_path / "s").unlink()
    assert factory.verify(MadeRuntime(after), given.process, {}).finding is Finding.NOT_DONE


@BOTH
def test_a_file_that_was_there_before_proves_nothing(action: str, tmp_path: Path) -> None:
    made = with_statistics(changing(1), action, 2, tmp_path / "s")
    asked = operation(Action(action), origin="api")
    process = IcebergProcessFactory().admit(MadeRuntime(made), asked)
    assert isinstance(process, TableProcess)

    verdict = IcebergProcessFactory().verify(MadeRuntime(made), process, {})

    if action == TABLE:
        assert verdict.finding is Finding.NOT_DONE
    else:  # Iceberg computes them once for a snapshot
        assert (verdict.finding, verdict.numbers["changed"]) == (Finding.DONE, False)


def test_nobody_gets_statistics_without_naming_them() -> None:
    assert IcebergProcessFactory().optional_actions() == {TABLE, PARTITIONS, "expire-data"}
