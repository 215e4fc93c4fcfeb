# SPDX-License-Identifier: Apache-2.0
"""What each look has seen and when its factory is asked again; and the places of operations whose number is limited."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

Key = sa.String(250)
Prose = sa.Text().with_variant(mysql.LONGTEXT(), "mysql")
PLACE = "uq_operation_place"


def upgrade() -> None:
    add("schedule", sa.Column("last_decision", sa.BigInteger))
    add("schedule", sa.Column("decide_at", sa.BigInteger))
    add("schedule", sa.Column("seen_token", Prose))
    add("operation", sa.Column("place", Key))
    if PLACE not in {index["name"] for index in sa.inspect(op.get_bind()).get_indexes("operation")}:
        op.create_index(PLACE, "operation", ["place"], unique=True)


def add(table: str, column: sa.Column[Any]) -> None:
    """MySQL keeps what was added before a crash: go on from there."""
    if column.name not in {known["name"] for known in sa.inspect(op.get_bind()).get_columns(table)}:
        op.add_column(table, column)
