# SPDX-License-Identifier: Apache-2.0
"""A hostile table harms only itself: whatever its metadata files are, its format raises an error about them, soon."""

import gzip
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lakehand.domain.errors import Invalid
from lakehand.formats.delta import DeltaFormat, checkpoint_files
from lakehand.formats.hudi import HudiFormat
from lakehand.formats.iceberg import IcebergFormat
from lakehand.formats.lance import LanceFormat
from lakehand.formats.paimon import PaimonFormat
from lakehand.spi import TableFormat, TableReference
from lakehand.storage import TooLarge, bounds
from lakehand.storage import avro as avro_module
from tests import small_tables
from tests.formats.iceberg.made import WrittenTable
from tests.formats.paimon.handmade import HandMade, small
from tests.kit.sentences import Sentences
from tests.storage.avro_files import avro_file, deflated, record

SELF = avro_file(record(("a", "A")), [(1, b"")])
BOMB = avro_file(record(("id", "int")), [(1, deflated(bytes(3_000_000)))], "deflate")


def iceberg(path: Path) -> Path:
    WrittenTable(folder=path)
    return path


def paimon(path: Path) -> Path:
    made = HandMade(path)
    made.commit(small(3))
    return path


def delta(path: Path) -> Path:
    """With a checkpoint, so that its log is read from there."""
    import deltalake

    small_tables.delta(path, commits=3)
    deltalake.DeltaTable(str(path)).create_checkpoint()
    small_tables.delta(path, commits=1)
    return path


FORMATS: dict[str, tuple[type[TableFormat], Callable[[Path], Path]]] = {
    "hudi": (HudiFormat, small_tables.hudi),
    "iceberg": (IcebergFormat, iceberg),
    "delta": (DeltaFormat, delta),
    "paimon": (PaimonFormat, paimon),
    "lance": (LanceFormat, lambda path: small_tables.lance(path, commits=3)),
}
PENDING = ".hoodie/timeline/[0-9]*.compaction.requested"
# What each format reads for a decision or for its numbers.
FILES = [
    ("hudi", ".hoodie/hoodie.properties"),
    ("hudi", ".hoodie/timeline/*.requested"),
    ("iceberg", "metadata/version-hint.text"),
    ("iceberg", "metadata/v1.metadata.json"),
    ("iceberg", "metadata/snap-*.avro"),
    ("iceberg", "metadata/*-m0.avro"),
    ("delta", "_delta_log/*3.json"),
    ("delta", "_delta_log/*.checkpoint.parquet"),
    ("paimon", "schema/schema-0"),
    ("paimon", "snapshot/snapshot-1"),
    ("paimon", "manifest/manifest-list-*"),
    ("paimon", "manifest/manifest-1"),
    ("lance", "_versions/*.manifest"),
]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    """Each table once, where it stays: Iceberg's metadata holds absolute paths. All tests leave them sound."""
    folder = tmp_path_factory.mktemp("hostile")
    tables = {name: make(folder / name) for name, (_, make) in FORMATS.items()}
    for done in only_pending(tables["hudi"]):
        done.unlink()  # what is completed is not opened
    yield tables
    assert all(read_all(name, path) for name, path in tables.items())
    shutil.rmtree(folder)


def only_pending(table: Path) -> list[Path]:
    """The requested files of compactions that are completed."""
    timeline = table / ".hoodie" / "timeline"
    completed = {file.name[:17] for file in timeline.glob("*.commit")}
    return [file for file in timeline.glob("*.compaction.requested") if file.name[:17] in completed]


def read_all(name: str, path: Path) -> dict[str, Any]:
    form, reference = FORMATS[name][0](), TableReference(location=str(path))
    form.probe(reference)
    snapshot = form.inspect(reference)
    return dict(snapshot.numbers)


def replaced(path: Path, pattern: str, make: Callable[[Path], Any]) -> Iterator[Path]:
    """Each file of the pattern in turn, put back afterwards."""
    found = sorted(path.glob(pattern))
    assert found, f"{path} has no {pattern}"
    for file in found:
        aside = file.with_name(f"{file.name}.aside-{os.getpid()}")
        file.rename(path.parent / aside.name)
        try:
            make(file)
            yield file
        finally:
            file.unlink(missing_ok=True)
            (path.parent / aside.name).rename(file)


@pytest.mark.parametrize("name", FORMATS)
def test_the_sound_table_is_read(name: str, made: dict[str, Path]) -> None:
    assert read_all(name, made[name])


@pytest.mark.parametrize(
    ("make", "kind"),
    [(os.mkfifo, "pipe"), (lambda file: file.symlink_to("/dev/zero"), "link")],
    ids=["pipe", "endless device"],
)
@pytest.mark.parametrize(("name", "pattern"), FILES)
def test_an_odd_file_instead_of_metadata_is_refused_by_name(
    name: str, pattern: str, make: Callable[[Path], Any], kind: str, made: dict[str, Path]
) -> None:
    seen = []
    for file in replaced(made[name], pattern, make):
        try:
            read_all(name, made[name])
        except (OSError, Invalid) as error:
            seen.append((file.name, str(error)))
    assert seen
    assert [name for name, text in seen if name not in text or f" {kind}" not in text] == []


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("iceberg", "metadata/snap-*.avro"),
        ("iceberg", "metadata/*-m0.avro"),
        ("paimon", "manifest/manifest-1"),
        ("hudi", PENDING),
    ],
)
@pytest.mark.parametrize("attack", [(SELF, OSError), (BOMB, TooLarge)], ids=["contains itself", "bomb"])
def test_hostile_avro_is_an_error_about_its_file(
    name: str, pattern: str, attack: tuple[bytes, type[OSError]], made: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    data, kind = attack
    monkeypatch.setattr(avro_module, "MOST_UNPACKED", 1_000_000)
    for file in replaced(made[name], pattern, lambda file: file.write_bytes(data)):
        with pytest.raises(kind, match=file.name):
            read_all(name, made[name])


def test_a_packed_metadata_file_is_unpacked_up_to_a_limit(
    made: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """583 KB of gzip that unpack to 1.2 GB ate the service's memory."""
    monkeypatch.setattr(bounds.gunzip, "__defaults__", (1_000_000,))
    bomb = gzip.compress(b'{"a":"' + b"x" * 3_000_000 + b'"}')
    for _ in replaced(made["iceberg"], "metadata/v1.metadata.json", lambda file: file.write_bytes(bomb)):
        with pytest.raises(TooLarge, match=r"v1\.metadata\.json .*\b1000000\b"):
            read_all("iceberg", made["iceberg"])


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("iceberg", "metadata/v1.metadata.json"),
        ("delta", "_delta_log/*3.json"),
        ("paimon", "schema/schema-0"),
        ("paimon", "snapshot/snapshot-1"),
        ("hudi", PENDING),
    ],
)
def test_json_that_is_nested_too_deeply_is_an_error_about_its_file(
    name: str, pattern: str, made: dict[str, Path]
) -> None:
    for file in replaced(made[name], pattern, lambda file: file.write_bytes(b"[" * 100_000)):
        with pytest.raises((OSError, Invalid), match=file.name):
            read_all(name, made[name])


def test_a_schema_of_delta_that_is_nested_too_deeply_is_an_error_about_its_table(tmp_path: Path) -> None:
    from tests.formats.delta.logs import protocol

    log = tmp_path / "t" / "_delta_log"
    log.mkdir(parents=True)
    deep = {"metaData": {"id": "x", "schemaString": "[" * 100_000, "partitionColumns": [], "configuration": {}}}
    (log / f"{0:020d}.json").write_text("\n".join(map(json.dumps, [protocol(), deep])))
    snapshot: Any = DeltaFormat().inspect(TableReference(location=str(tmp_path / "t")))
    with pytest.raises(OSError, match=r"/t\b"):
        _ = snapshot.schema


@pytest.mark.parametrize(
    ("bound", "case", "found"),
    [
        ("MOST_ROWS", "too many rows in a checkpoint", {"rows": 5}),
        ("MOST_GROUP", "too many bytes in a part of a checkpoint", {"bytes": re.compile(r"\b\d{4}\b")}),
        ("MOST_IN_MEMORY", "a checkpoint that unpacks to too much", {}),
    ],
)
def test_a_checkpoint_is_read_within_bounds(
    bound: str, case: str, found: dict[str, Any], made: dict[str, Path], monkeypatch: pytest.MonkeyPatch, *,
    sentences: Sentences,
) -> None:  # fmt: skip
    monkeypatch.setattr(checkpoint_files, bound, 1)
    with pytest.raises(TooLarge) as error:
        read_all("delta", made["delta"])
    sentences.check(case, str(error.value), file=re.compile(r"\S+\.checkpoint\.parquet"), **found, most=1)


def test_a_dictionary_of_one_long_value_does_not_fill_the_memory(
    made: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A footer counts the bytes of a dictionary once, however often its values are repeated."""
    import pyarrow as pa
    from pyarrow import parquet

    rows, value = 20_000, "x" * 10_000
    path = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), [value]).cast(pa.string())
    add = pa.StructArray.from_arrays([path, pa.array([1] * rows, pa.int64())], ["path", "size"])
    monkeypatch.setattr(checkpoint_files, "MOST_IN_MEMORY", 50_000_000)

    def bomb(file: Path) -> None:
        parquet.write_table(pa.table({"add": add}), file)
        assert file.stat().st_size < 1_000_000

    del path
    for _ in replaced(made["delta"], "_delta_log/*.checkpoint.parquet", bomb):
        with pytest.raises(TooLarge, match=r"checkpoint\.parquet .*\b50000000\b"):
            read_all("delta", made["delta"])


def test_a_giant_manifest_of_lance_is_refused_before_its_library_reads_it(made: dict[str, Path]) -> None:
    table = made["lance"]

    def giant(file: Path) -> None:
        with file.open("wb") as opened:
            opened.truncate(1024**4)

    newest = min(file.name for file in (table / "_versions").glob("*.manifest"))
    for _ in replaced(table, f"_versions/{newest}", giant):
        with pytest.raises(TooLarge, match=f"{newest} .*{1024**4}"):
            read_all("lance", table)


def test_a_table_whose_root_is_a_link_is_read(made: dict[str, Path], tmp_path: Path) -> None:
    for name, path in made.items():
        (tmp_path / name).symlink_to(path)
        assert read_all(name, tmp_path / name)
