# SPDX-License-Identifier: Apache-2.0
"""Reading Avro as Paimon writes it, zstd included, which fastavro alone cannot unpack."""

from typing import Any

from lakehand.storage import read_records


def records(data: bytes, path: str) -> list[dict[str, Any]]:
    """All records of a file. Whatever cannot be read is an OSError: nobody may take it for empty."""
    return [record for record in read_records(data, path) if isinstance(record, dict)]
