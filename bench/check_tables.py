# SPDX-License-Identifier: Apache-2.0
"""A table of a thousand small files per format, and the cheapest way that the format's own library lists its files."""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.idle_tables import make_tables
from bench.mixed_tables import MB, added, delta_commit, metadata, protocol
from lakehand.spi import size_histogram

COMMITS = 10
SMALL = 96 * MB


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A table, and how others list the sizes of its live files."""

    format: str
    path: Path
    library: str  # who lists them, in words
    listing: Callable[[str], "Listing"]

    def counted(self) -> dict[str, Any]:
        """The same numbers as ours, made of the library's listing."""
        listed = self.listing(str(self.path))
        small = [size for size in listed.sizes if size < SMALL]
        return {
            "files": len(listed.sizes), "bytes": sum(listed.sizes), "histogram": size_histogram(listed.sizes),
            "small_files": len(small), "small_bytes": sum(small), "snapshots": listed.snapshots,
            "oldest_snapshot": listed.oldest,
        }  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """What a library says: the sizes of the live files, how many snapshots there are, and the time of the oldest."""

    sizes: list[int]
    snapshots: int
    oldest: object


def subjects(folder: Path, files: int) -> list[Subject]:
    each = files // COMMITS
    return [
        Subject(format="hudi", path=hudi(folder, each), library="a bare walk of the folder", listing=walked),
        Subject(format="delta", path=delta(folder / "delta", each), library="deltalake", listing=by_deltalake),
        Subject(format="iceberg", path=iceberg(folder / "iceberg", each), library="pyiceberg", listing=by_pyiceberg),
        Subject(format="paimon", path=paimon(folder / "paimon", each), library="fastavro alone", listing=by_fastavro),
        Subject(format="lance", path=lance(folder / "lance", each), library="pylance", listing=by_pylance),
    ]


def hudi(folder: Path, each: int) -> Path:
    [path] = make_tables(folder / "hudi", 1)
    for number in range(COMMITS):
        (path / f"p{number}").mkdir()
        for file in range(each):
            name = f"{number:04d}{file:04d}-0000-0000-0000-000000000000-0_0-1-0_20240501120000000.parquet"
            with (path / f"p{number}" / name).open("wb") as data:
                data.truncate(MB)
    return path


def walked(path: str) -> Listing:
    sizes = []
    for folder, folders, names in os.walk(path):
        folders[:] = [name for name in folders if not name.startswith(".")]
        sizes += [os.stat(f"{folder}/{name}").st_size for name in names if name.endswith(".parquet")]  # noqa: PTH116
    timeline = [entry for entry in os.scandir(f"{path}/.hoodie/timeline") if entry.name.endswith("commit")]
    return Listing(sizes=sizes, snapshots=len(timeline), oldest=min(entry.stat().st_mtime for entry in timeline))


def delta(path: Path, each: int) -> Path:
    (path / "_delta_log").mkdir(parents=True)
    for version in range(COMMITS):
        head = [] if version else [protocol(), metadata(path.name)]
        delta_commit(path, version, [*head, *added(version, each, MB)])
    return path


def by_deltalake(path: str) -> Listing:
    import deltalake
    import pyarrow as pa

    table = deltalake.DeltaTable(path)
    history = table.history()
    sizes = pa.table(table.get_add_actions()).column("size_bytes").to_pylist()
    return Listing(sizes=sizes, snapshots=len(history), oldest=history[-1]["timestamp"])


def iceberg(folder: Path, each: int) -> Path:
    import pyarrow as pa
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.transforms import IdentityTransform

    folder.mkdir(parents=True)
    catalog = SqlCatalog("bench", uri=f"sqlite:///{folder / 'catalog.db'}", warehouse=str(folder))
    catalog.create_namespace("bench")
    rows = pa.table({"id": list(range(each)), "v": ["x"] * each})
    table = catalog.create_table("bench.t", schema=rows.schema)
    with table.update_spec() as spec:
        spec.add_field("id", IdentityTransform())
    for _ in range(COMMITS):
        table.append(rows)
    catalog.close()
    return Path(table.location().removeprefix("file://"))


def by_pyiceberg(path: str) -> Listing:
    from pyiceberg.table import StaticTable

    newest = max(Path(path, "metadata").glob("*.metadata.json"))
    table = StaticTable.from_metadata(str(newest))
    snapshot = table.current_snapshot()
    assert snapshot is not None
    manifests = snapshot.manifests(table.io)
    sizes = [e.data_file.file_size_in_bytes for m in manifests for e in m.fetch_manifest_entry(table.io)]
    snapshots = table.snapshots()
    return Listing(sizes=sizes, snapshots=len(snapshots), oldest=min(one.timestamp_ms for one in snapshots))


def paimon(path: Path, each: int) -> Path:
    from tests.formats.paimon.handmade import HandMade, small

    table = HandMade(path)
    for number in range(COMMITS):
        table.commit(small(each, f"data-{number}"))
    return path


def by_fastavro(path: str) -> Listing:
    """What any reader of Paimon has to open: the newest snapshot, its lists, their manifests."""
    import fastavro

    def records(name: str) -> list[Any]:
        with Path(path, "manifest", name).open("rb") as file:
            return list(fastavro.reader(file))

    files = sorted(Path(path, "snapshot").glob("snapshot-*"), key=lambda file: int(file.name.rpartition("-")[2]))
    oldest, snapshot = (json.loads(file.read_text()) for file in (files[0], files[-1]))
    lists = records(snapshot["baseManifestList"]) + records(snapshot["deltaManifestList"])
    sizes = [entry["_FILE"]["_FILE_SIZE"] for manifest in lists for entry in records(manifest["_FILE_NAME"])]
    return Listing(sizes=sizes, snapshots=len(files), oldest=oldest["timeMillis"])


def lance(path: Path, each: int) -> Path:
    import lance as library
    import pyarrow as pa

    rows = pa.table({"id": list(range(each)), "v": ["x"] * each})
    for number in range(COMMITS):
        library.write_dataset(rows, str(path), mode="append" if number else "create", max_rows_per_file=1)
    return path


def by_pylance(path: str) -> Listing:
    import lance as library

    dataset = library.dataset(path)
    sizes = [file.file_size_bytes or 0 for fragment in dataset.get_fragments() for file in fragment.metadata.files]
    versions = dataset.versions()
    return Listing(sizes=sizes, snapshots=len(versions), oldest=versions[0]["timestamp"])
