# SPDX-License-Identifier: Apache-2.0
"""A table that is written and read by pylance, without Spark."""

import hashlib
from typing import TYPE_CHECKING, Any

from lakehand.cli.demo.written import CITIES, COLUMNS, Written

if TYPE_CHECKING:
    import pyarrow as pa


class LanceTable(Written):
    def write(self, *, operation: str, first: int, rows: int, batch: int, parts: int, where: str) -> None:
        import lance

        if where:
            lance.dataset(self.location).delete(where)
            return
        table, size = arrow_batch(first, rows, batch), rows // parts
        for start in range(0, rows, size):
            lance.write_dataset(table.slice(start, size), self.location, mode="append")

    def query(self) -> None:
        self.read(["city", "fare", "driver"]).group_by("city").aggregate(
            [("fare", "sum"), ("driver", "count_distinct")]
        )

    def contents(self) -> tuple[int, str]:
        rows: list[Any] = self.read(list(COLUMNS)).sort_by("id").to_pylist()
        return len(rows), hashlib.sha256(repr(rows).encode()).hexdigest()

    def read(self, columns: list[str]) -> "pa.Table":
        import lance

        return lance.dataset(self.location).to_table(columns=columns)


def arrow_batch(first: int, rows: int, batch: int) -> "pa.Table":
    import pyarrow as pa

    ids = range(first, first + rows)
    columns = {
        "id": list(ids),
        "city": [f"city-{one % CITIES}" for one in ids],
        "fare": [one * 7919 % 100_000 / 100 for one in ids],
        "driver": [f"driver {hashlib.md5(str(one).encode()).hexdigest()}" for one in ids],  # noqa: S324
        "ts": [batch] * rows,
    }
    return pa.table(columns)
