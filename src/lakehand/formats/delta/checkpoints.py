# SPDX-License-Identifier: Apache-2.0
"""Reading checkpoints: parquet files, or a JSON file with parquet sidecars, that hold a table's whole state."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lakehand.formats.delta.files import DataFile, Tombstone, partition_of, row_count
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
    deleted = column(add, "deletionVector", "cardinality")
    rows = counted(file) if any(one is not None for one in deleted) else [-1] * len(deleted)
    columns = (
        column(add, "path"),
        column(add, "size"),
        column(add, "modificationTime"),
        column(add, "partitionValues"),
    )
    for path, size, modified, values, gone, count, by in zip(
        *columns, deleted, rows, column(add, "clusteringProvider"), strict=True
    ):
        yield DataFile(
            path, size or 0, modified or 0, partition_of(values) if values else (),
            -1 if gone is None else gone, -1 if gone is None else count, by or "",
        )  # fmt: skip


def counted(file: Any) -> list[int]:
    """Rows of each live file, for the tables with deletion vectors: the statistics are the bulk of a checkpoint."""
    add = present(file.read(columns=["add.path", "add.stats"], use_threads=False), "add")
    return [row_count(stats) for stats in column(add, "stats")]


def tombstones(table: Any) -> Iterator[Tombstone]:
    remove = present(table, "remove")
    if remove is None:
        return
    columns = (column(remove, "path"), column(remove, "deletionTimestamp"), column(remove, "size"))
    for path, removed, size in zip(*columns, strict=True):
        yield Tombstone(path, removed or 0, size or 0)


def present(table: Any, name: str) -> Any:
    """The rows of a struct column that are not null; None when there is no such column."""
    if name not in table.column_names:
        return None
    whole = table.column(name).combine_chunks()
    return whole.filter(whole.field("path").is_valid()) if whole.type.get_field_index("path") >= 0 else None


def column(rows: Any, *names: str) -> Sequence[Any]:
    """A field of a struct, or of a struct in it, as Python values; nothing but None where a writer left it out."""
    for name in names:
        if rows.type.get_field_index(name) < 0:
            return [None] * len(rows)
        rows = field_of(rows, name)
    return rows.to_pylist()  # type: ignore[no-any-return]


def field_of(rows: Any, name: str) -> Any:
    """With the nulls of the struct itself, which the bare field does not have."""
    from pyarrow import compute

    return compute.struct_field(rows, name)


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
