# SPDX-License-Identifier: Apache-2.0
"""Which files are sorted already: those that were there when our last sort of the same order committed."""

import hashlib
import json

from lakehand.formats.paimon.manifests import DataFile
from lakehand.formats.paimon.settings import Order
from lakehand.formats.paimon.snapshot import OURS, PaimonSnapshot
from lakehand.spi import StateKey, TableRuntime

SORTED: StateKey[dict[str, int]] = StateKey(name="sorted", default={}, encode=json.dumps, decode=json.loads)


def unsorted(table: TableRuntime, snapshot: PaimonSnapshot, order: Order) -> list[DataFile]:
    until = sorted_until(table, snapshot, order)
    return [file for file in snapshot.files if file.created > until]


def sorted_until(table: TableRuntime, snapshot: PaimonSnapshot, order: Order) -> int:
    """The age of the youngest sorted file: from the table's history, or from our memory when that has expired."""
    sign = f"_{sign_of(order)}"
    for document in snapshot.recent:
        user = str(document.get("commitUser"))
        if user.startswith(OURS) and user.endswith(sign):
            return youngest(snapshot, document["id"])
    return table.state(SORTED).get(str(order), -1)


def youngest(snapshot: PaimonSnapshot, number: int) -> int:
    document = snapshot.document(number) or {}
    added = [entry.file.created for entry in snapshot.manifests.changes(document) if entry.is_added]
    return max(added, default=-1)


def sign_of(order: Order) -> str:
    """The end of the commit user of a sort: short, and another for each order."""
    return "sort-" + hashlib.blake2b(str(order).encode(), digest_size=4).hexdigest()
