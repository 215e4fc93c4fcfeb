# SPDX-License-Identifier: Apache-2.0
"""Reading checkpoints: parquet files, or a JSON file with parquet sidecars, that hold a table's whole state."""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from lakehand.formats.delta.files import LiveFile, LogState, Partition, Tombstone, partition_of, row_count
from lakehand.formats.delta.log import Checkpoint, Log, read_commit
from lakehand.storage import TooLarge

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
MOST_ROWS = 50_000_000  # of one part
MOST_GROUP = 4 * 1024**3  # bytes of one row group, unpacked: mostly statistics, which are not read
MOST_IN_MEMORY = 1024**3  # bytes of the columns that are read
BATCH = 4096  # rows


def load(state: LogState, log: Log, checkpoint: Checkpoint) -> None:
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
        load_parquet(state, log, name if "/" in name else f"{log.folder}/{SIDECARS}/{name}")
    state.drop_tombstones_of_live_files()


def statistics(log: Log, checkpoint: Checkpoint) -> Iterator[tuple[str, str | None]]:
    """Path and statistics of the files. These are the bulk of a checkpoint: they are read only where they decide."""
    sidecars: list[str] = []
    for name in checkpoint.names:
        path = f"{log.folder}/{name}"
        if not name.endswith(".json"):
            yield from statistics_in(log, path, sidecars)
            continue
        for action in read_commit(log.storage, path):
            if add := action.get("add"):
                yield add["path"], add.get("stats")
            elif sidecar := action.get("sidecar"):
                sidecars.append(sidecar["path"])
    for name in [*sidecars]:
        yield from statistics_in(log, name if "/" in name else f"{log.folder}/{SIDECARS}/{name}", sidecars)


def statistics_in(log: Log, path: str, sidecars: list[str]) -> Iterator[tuple[str, str | None]]:
    """Of one part, batch by batch; the sidecars that it names are added to the list."""
    from pyarrow import ArrowException, Table, parquet

    try:
        with log.storage.open(path) as opened, parquet.ParquetFile(opened) as file:
            refuse_large(file.metadata, path)
            columns = ["add.path", "add.stats", "sidecar.path"]
            for batch in file.iter_batches(batch_size=BATCH, columns=columns, use_threads=False):
                table = Table.from_batches([batch])
                if (add := present(table, "add")) is not None:
                    yield from zip(texts(add, "path"), texts(add, "stats"), strict=True)
                if (named := present(table, "sidecar")) is not None:
                    sidecars += texts(named, "path")
    except (FileNotFoundError, TooLarge):
        raise
    except (ArrowException, MemoryError) as error:
        raise OSError(f"{path} cannot be read: {error}") from error


def load_parquet(state: LogState, log: Log, path: str) -> list[Mapping[str, Any]]:
    """Put the files of a part into the state; return its few other actions."""
    from pyarrow import ArrowException, parquet  # costs 100 ms, and tables without checkpoints do not need it

    try:
        with log.storage.open(path) as opened, parquet.ParquetFile(opened) as file:
            refuse_large(file.metadata, path)
            table = read_columns(file, [*FILE_COLUMNS, *TABLE_COLUMNS], path)
            state.files.update((one.path, one) for one in live_files(table, file, path))
            state.tombstones.update((one.path, one) for one in tombstones(table))
    except (FileNotFoundError, TooLarge):
        raise
    except (ArrowException, MemoryError) as error:
        raise OSError(f"{path} cannot be read: {error}") from error
    return list(other_actions(table))


def refuse_large(footer: Any, path: str) -> None:
    """By the footer, before anything is unpacked."""
    if footer.num_rows > MOST_ROWS:
        raise TooLarge(f"{path} has {footer.num_rows} rows; more than {MOST_ROWS} are not read")
    for number in range(footer.num_row_groups):
        size = footer.row_group(number).total_byte_size
        if size > MOST_GROUP:
            raise TooLarge(f"{path} has a row group of {size} bytes; more than {MOST_GROUP} are not read")


def read_columns(file: Any, columns: list[str], path: str) -> Any:
    """In batches: a footer may be wrong, and a dictionary of one long value unpacks to any size."""
    from pyarrow import Table

    batches, size = [], 0
    for batch in file.iter_batches(batch_size=BATCH, columns=columns, use_threads=False):
        size += batch.nbytes
        if size > MOST_IN_MEMORY:
            raise TooLarge(f"{path} unpacks to more than {MOST_IN_MEMORY} bytes, which is not read")
        batches.append(batch)
    return Table.from_batches(batches) if batches else file.schema_arrow.empty_table()


def live_files(table: Any, file: Any, path: str) -> Iterator[LiveFile]:
    add = present(table, "add")
    if add is None:
        return
    deleted = numbers(add, "deletionVector", "cardinality", missing=-1)
    rows = [-1] * len(deleted)
    if any(count >= 0 for count in deleted):  # the statistics are the bulk of a checkpoint
        stats = texts(present(read_columns(file, ["add.path", "add.stats"], path), "add"), "stats")
        rows = [row_count(text) for text in stats]
    yield from map(
        LiveFile, texts(add, "path"), numbers(add, "size"), numbers(add, "modificationTime"), partitions(add), deleted,
        [count if gone >= 0 else -1 for count, gone in zip(rows, deleted, strict=True)],
        [by or "" for by in texts(add, "clusteringProvider")],
    )  # fmt: skip


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
    """The values of a map column; its keys and items lie one after the other, and offsets mark the rows."""
    found = field_of(rows, "partitionValues")
    if found is None or not len(found.keys):
        return [()] * len(rows)
    keys, items = (part.to_numpy(zero_copy_only=False).tolist() for part in (found.keys, found.items))
    offsets = found.offsets.to_numpy().tolist()
    return [partition_of(zip(keys[a:b], items[a:b], strict=True)) for a, b in pairwise(offsets)]


def other_actions(table: Any) -> Iterator[Mapping[str, Any]]:
    """pyarrow gives a map, as the configuration of a table is, as a list of pairs."""
    from pyarrow import types

    for name in TABLE_COLUMNS:
        if name in table.column_names and types.is_struct(table.column(name).type):
            for value in table.column(name).drop_null().to_pylist():
                pairs = value.get("configuration")
                yield {name: {**value, "configuration": dict(pairs)} if isinstance(pairs, list) else value}


def why_unreadable(log: Log, checkpoint: Checkpoint) -> str:
    """Why nobody can read a checkpoint; empty if all of it was read."""
    state = LogState()
    try:
        load(state, log, checkpoint)
    except OSError as error:
        return f"the checkpoint of version {checkpoint.version} cannot be read: {error}"
    if not state.protocol or not state.metadata:
        return f"the checkpoint of version {checkpoint.version} has no protocol or schema"
    return ""
