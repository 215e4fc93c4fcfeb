# SPDX-License-Identifier: Apache-2.0
"""Checking tables side by side: one that others are in the way of waits for them."""

from types import SimpleNamespace

from lakehand.local.check import ReadOnce
from lakehand.spi import Busy, Format, TableFormat, TableReference, TableSnapshot

TABLE = TableReference(location="/t")


class BusyTwice(TableFormat):
    format = Format("toy")

    def __init__(self) -> None:
        self.asked = 0

    def probe(self, reference: TableReference) -> str:
        return "1"

    def inspect(self, reference: TableReference) -> TableSnapshot:
        self.asked += 1
        if self.asked < 3:
            raise Busy("another one is read")
        return SimpleNamespace(token="1", numbers={})


def test_a_table_waits_for_others_as_long_as_it_takes_and_is_read_once() -> None:
    reader = BusyTwice()
    once = ReadOnce(reader)
    assert once.inspect(TABLE) is once.inspect(TABLE)
    assert reader.asked == 3
