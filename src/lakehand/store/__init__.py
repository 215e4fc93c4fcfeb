# SPDX-License-Identifier: Apache-2.0
"""SQL: the schema, one file per aggregate and one migration tree for three databases."""

from lakehand.store.sqlstore import SqlStore, open_store

__all__ = ["SqlStore", "open_store"]
