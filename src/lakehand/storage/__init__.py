# SPDX-License-Identifier: Apache-2.0
"""Reading files where tables live, within bounds. Public: outside plugins may use it as ours do."""

from lakehand.storage.avro import checked_avro, read_records
from lakehand.storage.boundaries import WITHIN, OutsideWarehouses, ReadBoundary
from lakehand.storage.bounds import LARGEST, MOST_UNPACKED, SMALL, TooLarge, gunzip
from lakehand.storage.hive_metastore import tables_in_metastore
from lakehand.storage.jdbc import database_address, open_database, select_rows
from lakehand.storage.json_documents import (
    IN_PROCESS,
    Piece,
    Wanted,
    parse_json,
    parse_json_lines,
    put_together,
    read_large,
)
from lakehand.storage.storages import ABSENT, ArrowStorage, Entry, LocalStorage, Storage, Storages, newest_after

__all__ = [
    "ABSENT",
    "IN_PROCESS",
    "LARGEST",
    "MOST_UNPACKED",
    "SMALL",
    "WITHIN",
    "ArrowStorage",
    "Entry",
    "LocalStorage",
    "OutsideWarehouses",
    "Piece",
    "ReadBoundary",
    "Storage",
    "Storages",
    "TooLarge",
    "Wanted",
    "checked_avro",
    "database_address",
    "gunzip",
    "newest_after",
    "open_database",
    "parse_json",
    "parse_json_lines",
    "put_together",
    "read_large",
    "read_records",
    "select_rows",
    "tables_in_metastore",
]
