# SPDX-License-Identifier: Apache-2.0
"""A table is probed once for all of its actions: when that is due, and who has taken it on."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

DUE = "ix_tbl_probe"


def upgrade() -> None:
    add("tbl", sa.Column("probe_due", sa.BigInteger))
    add("tbl", sa.Column("probe_token", sa.String(64)))
    if DUE not in {index["name"] for index in sa.inspect(op.get_bind()).get_indexes("tbl")}:
        op.create_index(DUE, "tbl", ["probe_due"])
    op.execute("UPDATE tbl SET probe_due = 0 WHERE probe_due IS NULL AND NOT removed")


def add(table: str, column: sa.Column[Any]) -> None:
    """MySQL keeps what was added before a crash: go on from there."""
    if column.name not in {known["name"] for known in sa.inspect(op.get_bind()).get_columns(table)}:
        op.add_column(table, column)
