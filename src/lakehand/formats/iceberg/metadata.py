# SPDX-License-Identifier: Apache-2.0
"""The metadata file of a table: one JSON document, plain or packed."""

from typing import Any

from lakehand.spi import Invalid
from lakehand.storage import Storages, gunzip, parse_json

PACKED = b"\x1f\x8b"
NEWEST = 3  # the newest format version that is known here and to the engine


def read_metadata(storages: Storages, location: str) -> dict[str, Any]:
    storage, path = storages.of(location)
    data = storage.read(path)
    document = parse_json(gunzip(data, location) if data.startswith(PACKED) else data, location)
    if not isinstance(document, dict) or "format-version" not in document or "location" not in document:
        raise Invalid(f"{location} is no metadata of an Iceberg table")
    return document
