# SPDX-License-Identifier: Apache-2.0
"""The partitions that commit events named."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")
TEXT = sa.Text().with_variant(mysql.LONGTEXT(), "mysql")
OF_TABLE = sa.ForeignKey("tbl.id", name="fk_partition_hint_tbl")


def upgrade() -> None:
    """MySQL keeps what was added before a crash: go on from there."""
    if not sa.inspect(op.get_bind()).has_table("partition_hint"):
        op.create_table(
            "partition_hint",
            sa.Column("tbl_id", ID, OF_TABLE, primary_key=True, autoincrement=False),
            sa.Column("version", sa.BigInteger, nullable=False),
            sa.Column("names", TEXT),
            mysql_engine="InnoDB", mysql_charset="utf8mb4", mysql_collate="utf8mb4_bin",
        )  # fmt: skip
