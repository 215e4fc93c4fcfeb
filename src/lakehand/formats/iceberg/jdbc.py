# SPDX-License-Identifier: Apache-2.0
"""A JDBC catalog of Iceberg: one SQL table."""

from collections.abc import Iterator
from typing import Any

from lakehand.spi import Invalid
from lakehand.storage import select_rows

_ONE = (
    "SELECT metadata_location FROM iceberg_tables "
    "WHERE catalog_name = :catalog AND table_namespace = :namespace AND table_name = :name"
)
_ALL = "SELECT * FROM iceberg_tables WHERE catalog_name = :catalog ORDER BY table_namespace, table_name"


def metadata_in_database(database: Any, catalog: str, namespace: str, name: str) -> str:
    with select_rows(database, _ONE, catalog=catalog, namespace=namespace, name=name) as found:
        row = next(iter(found), None)
    if row is None or not row["metadata_location"]:
        raise Invalid(f"{namespace}.{name} is not in the catalog {catalog}")
    return str(row["metadata_location"])


def tables_in_database(database: Any, catalog: str) -> Iterator[tuple[str, str, str]]:
    """Namespace, name and metadata of each table; newer catalogs keep views in the same SQL table."""
    with select_rows(database, _ALL, catalog=catalog) as found:
        listed = [
            (str(row["table_namespace"]), str(row["table_name"]), str(row["metadata_location"]))
            for row in found
            if row.get("iceberg_type") in (None, "TABLE") and row["metadata_location"]
        ]
    yield from listed
