# SPDX-License-Identifier: Apache-2.0
"""Health over time: of each table, of the fleet, and of what operations did in each hour."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

ON_MYSQL: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}
ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")
COUNTS = ("files", "small_files", "bytes", "small_bytes")


def upgrade() -> None:
    """MySQL keeps what was added before a crash: go on from there."""
    for column in (sa.Column("problem", sa.Text), *numbers("problem_time", "health_time", *COUNTS)):
        add("tbl", column)
    add("schedule", sa.Column("failed_operation", ID))
    add_index("schedule", "ix_schedule_failed", "failed_operation")
    create(
        "health_point",
        sa.Column("tbl_id", ID, sa.ForeignKey("tbl.id", name="fk_health_point_tbl"), primary_key=True,
                  autoincrement=False),
        sa.Column("tier", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("slot", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("point_time", sa.BigInteger, nullable=False),
        sa.Column("numbers", sa.Text, nullable=False),
    )  # fmt: skip
    add_index("health_point", "ix_health_point_time", "point_time")
    create(
        "fleet_point",
        sa.Column("point_time", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("owner", sa.String(250), primary_key=True),
        *numbers("tables", *COUNTS, required=True),
    )
    create(
        "operation_hour",
        sa.Column("hour", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("action", sa.String(64), primary_key=True),
        sa.Column("status", sa.String(64), primary_key=True),
        *numbers(
            "operations", "attempts", "files_removed", "bytes_rewritten", "wait_millis", "run_millis", required=True
        ),
    )


def numbers(*names: str, required: bool = False) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.BigInteger, nullable=not required) for name in names]


def add(table: str, column: sa.Column[Any]) -> None:
    if column.name not in {known["name"] for known in sa.inspect(op.get_bind()).get_columns(table)}:
        op.add_column(table, column)


def add_index(table: str, name: str, *columns: str) -> None:
    if name not in {index["name"] for index in sa.inspect(op.get_bind()).get_indexes(table)}:
        op.create_index(name, table, list(columns))


def create(name: str, *columns: sa.Column[Any]) -> None:
    if not sa.inspect(op.get_bind()).has_table(name):
        op.create_table(name, *columns, **ON_MYSQL)
