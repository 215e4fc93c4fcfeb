# SPDX-License-Identifier: Apache-2.0
"""Reading files where tables live, within bounds. Public: outside plugins may use it as ours do."""

from lakehand.storage.avro import checked_avro, read_records
from lakehand.storage.bounds import LARGEST, MOST_UNPACKED, SMALL, TooLarge
from lakehand.storage.json_documents import parse_json, parse_json_lines
from lakehand.storage.storages import ArrowStorage, Entry, LocalStorage, Storage, Storages
from lakehand.storage.unpacking import gunzip

__all__ = [
    "LARGEST",
    "MOST_UNPACKED",
    "SMALL",
    "ArrowStorage",
    "Entry",
    "LocalStorage",
    "Storage",
    "Storages",
    "TooLarge",
    "checked_avro",
    "gunzip",
    "parse_json",
    "parse_json_lines",
    "read_records",
]
