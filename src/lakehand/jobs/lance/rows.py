# SPDX-License-Identifier: Apache-2.0
"""Reads the rows of a Lance table at one of its versions: each fragment is hashed by an executor, as Python has it.

Spark has no reader for Lance here, and handing it Arrow needs pandas, which nothing else does.
"""

from collections.abc import Callable, Sequence
from functools import reduce
from operator import xor
from typing import Any

from lakehand.jobs.checksums import Checksum, checksum_of
from lakehand.jobs.lance import datasets
from lakehand.jobs.lance.commits import TAG
from lakehand.jobs.rows import METADATA, Document, RowReader, Step, in_a_row
from lakehand.jobs.safety import operation_tag

MISSING = "not found"
HASH_BYTES = 8


class LanceRows(RowReader):
    def newest(self) -> str | None:
        return str(datasets.open_admitted(self.job, self._source).version)

    def steps(self, result: Document) -> Sequence[Step]:
        """By the tag; a rewrite that remapped indices has none, so that each rewrite without a tag may be ours."""
        before, dataset = self.job.parameters.get("before"), self._source.open()
        if isinstance(before, bool) or not isinstance(before, int):
            return []  # of an action that commits no rows
        tags = {number: tag_at(dataset, number) for number in range(before + 1, dataset.version + 1)}
        own = operation_tag(self.job.parameters)
        wanted = {own, ""} if self.job.parameters.get("is_indexed") else {own}
        return in_a_row([number for number, tag in tags.items() if tag in wanted or number == result.get("version")])

    def is_there(self, state: str) -> bool:
        try:
            self._at(state)
        except OSError as error:
            if MISSING in str(error).lower():
                return False
            raise
        return True

    def count(self, state: str) -> tuple[int, str]:
        """Rows and deleted rows of the fragments, as the manifest has them."""
        return int(self._at(state).count_rows()), METADATA

    def checksum(self, state: str) -> tuple[Checksum, str]:
        dataset = self._at(state)
        datasets.refuse_foreign_files(self.job.boundary, dataset)
        numbers = [fragment.fragment_id for fragment in dataset.get_fragments()]
        hashes = executor_function(self._source.uri, self._source.options, int(state))
        tasks = self.job.session.sparkContext.parallelize(numbers, max(len(numbers), 1))
        found = tasks.map(hashes).collect()
        rows, total = sum(one[0] for one in found), sum(one[1] for one in found)
        return checksum_of(rows, total, reduce(xor, (one[2] for one in found), 0)), columns_of(dataset.schema)

    def _at(self, state: str) -> Any:
        return self._source.open().checkout_version(int(state))

    @property
    def _source(self) -> datasets.Source:
        return datasets.source_of(self.job)


def tag_at(dataset: Any, version: int) -> str | None:
    """The tag of a rewrite, empty if it has none; None for whatever is not a rewrite, or was cleaned meanwhile."""
    try:
        transaction = dataset.read_transaction(version)
    except TypeError as error:
        # pylance 14.0 cannot build the description of a rewrite that also rewrote indices, and only of such a one.
        return "" if "RewrittenIndex" in str(error) else None
    except (OSError, ValueError):
        return None
    if type(getattr(transaction, "operation", None)).__name__ != "Rewrite":
        return None
    return str((transaction.transaction_properties or {}).get(TAG, ""))


def columns_of(schema: Any) -> str:
    return ", ".join(sorted(f"{one.name} {one.type}" for one in schema))


def value_function() -> Callable[[Any], list[Any]]:
    """From a column of Arrow's to values whose texts differ if they do."""
    vectors = ("halffloat", "float", "double", "uint8", "int8", "int16", "int32", "int64")

    def exact(column: Any, kind: str) -> list[Any]:
        """Nanoseconds, at any depth, as numbers: Python's own times have microseconds."""
        if kind.startswith(("timestamp", "time64", "duration")):
            return list(column.view("int64").to_pylist())
        if kind.startswith("struct"):
            rows = zip(*(values(column.field(number)) for number in range(column.type.num_fields)), strict=True)
            return [row if ok else None for row, ok in zip(rows, column.is_valid().to_pylist(), strict=True)]
        items = iter(values(column.flatten()))
        return [count and [next(items) for _ in range(count)] for count in column.value_lengths().to_pylist()]

    def values(column: Any) -> list[Any]:
        """A vector as its bytes: a list of its numbers would take much longer."""
        if "[ns" in str(column.type):
            return exact(column, str(column.type))
        flat = column.flatten() if str(column.type).startswith("fixed_size_list") else None
        if flat is None or column.null_count or flat.null_count or str(flat.type) not in vectors:
            return list(column.to_pylist())
        return [row.tobytes() for row in flat.to_numpy(zero_copy_only=False).reshape(len(column), -1)]

    return values


def executor_function(uri: str, options: dict[str, str], version: int) -> Callable[[int], tuple[int, int, int]]:
    """From the number of a fragment to its rows, and the sum and the exclusive or of their hashes.

    Pickled whole: an executor needs pylance and nothing of ours (see commits.executor_function).
    """
    values, size = value_function(), HASH_BYTES

    def hashes(number: int) -> tuple[int, int, int]:
        from hashlib import blake2b

        import lance

        rows = total = mixed = 0
        fragment: Any = lance.dataset(uri, version=version, storage_options=options or None).get_fragment(number)
        for batch in fragment.scanner(blob_handling="all_binary").to_batches():
            columns = [values(batch.column(name)) for name in sorted(batch.schema.names)]
            for row in zip(*columns, strict=True):
                found = blake2b(repr(row).encode("utf-8", "surrogatepass"), digest_size=size).digest()
                one = int.from_bytes(found, "big")
                rows, total, mixed = rows + 1, total + one, mixed ^ one
        return rows, total, mixed

    return hashes


READER = LanceRows
