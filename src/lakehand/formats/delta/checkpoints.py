# SPDX-License-Identifier: Apache-2.0
"""Reading checkpoints: parquet files, or a JSON file with parquet sidecars, that hold a table's whole state."""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from lakehand.formats.delta.files import DataFile, Partition, Tombstone, partition_of, row_count
from lakehand.formats.delta.log import Checkpoint, Log, read_commit
from lakehand.formats.delta.state import State

FILE_COLUMNS = (
    "add.path",
    "add.size",
    "add.modificationTime",
    "add.partitionValues",
    "add.deletionVector.cardinality",
    "add.clusteringProvider",
    "remove.path",
    "remove.deletionTimestamp",
    "remove.size",
)
TABLE_COLUMNS = ("metaData", "protocol", "domainMetadata", "sidecar")
SIDECARS = "_sidecars"


def load(state: State, log: Log, checkpoint: Checkpoint) -> None:
    """Fill an empty state from a checkpoint."""
    sidecars: list[str] = []
    for name in checkpoint.names:
        path = f"{log.folder}/{name}"
        actions = read_commit(log.storage, path) if name.endswith(".json") else load_parquet(state, log, path)
        for action in actions:
            if sidecar := action.get("sidecar"):
                sidecars.append(sidecar["path"])
            else:
                state.restore(action)
    for name in sidecars:
        load_parquet(state, log, sidecar_path(log.folder, name))
    state.bury()


def sidecar_path(folder: str, name: str) -> str:
    return name if "/" in name else f"{folder}/{SIDECARS}/{name}"


def load_parquet(state: State, log: Log, path: str) -> list[Mapping[str, Any]]:
    """Put the files of a part into the state; return its few other actions."""
    from pyarrow import ArrowException, parquet  # costs 100 ms, and tables without checkpoints do not need it

    try:
        with parquet.ParquetFile(path if log.storage.is_local else log.storage.open(path)) as file:
            table = file.read(columns=[*FILE_COLUMNS, *TABLE_COLUMNS], use_threads=False)
            state.files.update((one.path, one) for one in live_files(table, file))
            state.tombstones.update((one.path, one) for one in tombstones(table))
    except FileNotFoundError:
        raise
    except ArrowException as error:
        raise OSError(f"{path} cannot be read: {error}") from error
    return list(other_actions(table))


def live_files(table: Any, file: Any) -> Iterator[DataFile]:
    add = present(table, "add")
    if add is None:
        return
    deleted = numbers(add, "deletionVector", "cardinality", missing=-1)
    rows = counted(file) if any(count >= 0 for count in deleted) else [-1] * len(deleted)
    yield from map(
        DataFile, texts(add, "path"), numbers(add, "size"), numbers(add, "modificationTime"), partitions(add), deleted,
        [count if gone >= 0 else -1 for count, gone in zip(rows, deleted, strict=True)],
        [by or "" for by in texts(add, "clusteringProvider")],
    )  # fmt: skip


def counted(file: Any) -> list[int]:
    """Rows of each live file, for the tables with deletion vectors: the statistics are the bulk of a checkpoint."""
    add = present(file.read(columns=["add.path", "add.stats"], use_threads=False), "add")
    return [row_count(stats) for stats in texts(add, "stats")]


def tombstones(table: Any) -> Iterator[Tombstone]:
    remove = present(table, "remove")
    if remove is not None:
        yield from map(Tombstone, texts(remove, "path"), numbers(remove, "deletionTimestamp"), numbers(remove, "size"))


def present(table: Any, name: str) -> Any:
    """The rows of a struct column that are not null; None when there is no such column."""
    if name not in table.column_names:
        return None
    whole = table.column(name).combine_chunks()
    path = field_of(whole, "path")
    return None if path is None else whole.filter(path.is_valid())


def field_of(rows: Any, *names: str) -> Any:
    """A field of a struct, or of a struct in it, with the nulls of the struct itself; None where there is none."""
    from pyarrow import compute

    for name in names:
        if rows.type.get_field_index(name) < 0:
            return None
        rows = compute.struct_field(rows, name)
    return rows


def numbers(rows: Any, *names: str, missing: int = 0) -> list[int]:
    found = field_of(rows, *names)
    return [missing] * len(rows) if found is None else found.fill_null(missing).to_numpy().tolist()


def texts(rows: Any, name: str) -> list[Any]:
    """Through numpy, which makes Python's texts ten times as fast as pyarrow does itself."""
    found = field_of(rows, name)
    return [None] * len(rows) if found is None else found.to_numpy(zero_copy_only=False).tolist()


def partitions(rows: Any) -> list[Partition]:
    """The values of a map column; its keys and items lie one after the other, and offsets tell whose they are."""
    found = field_of(rows, "partitionValues")
    if found is None or not len(found.keys):
        return [()] * len(rows)
    keys, items = (part.to_numpy(zero_copy_only=False).tolist() for part in (found.keys, found.items))
    offsets = found.offsets.to_numpy().tolist()
    return [partition_of(zip(keys[a:b], items[a:b], strict=True)) for a, b in pairwise(offsets)]


def other_actions(table: Any) -> Iterator[Mapping[str, Any]]:
    from pyarrow import types

    for name in TABLE_COLUMNS:
        if name in table.column_names and types.is_struct(table.column(name).type):
            for value in table.column(name).drop_null().to_pylist():
                yield {name: with_maps(value)}


def with_maps(value: Mapping[str, Any]) -> dict[str, Any]:
    """pyarrow gives a map as a list of pairs."""
    maps = ("configuration",)
    return {key: dict(one) if key in maps and one is not None else one for key, one in value.items()}
