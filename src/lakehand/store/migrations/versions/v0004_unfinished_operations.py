# SPDX-License-Identifier: Apache-2.0
"""The unfinished operations of one table are counted and read without reading the others."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

OF_TABLE = "ix_operation_tbl_status"


def upgrade() -> None:
    """MySQL keeps what was added before a crash: go on from there."""
    if OF_TABLE not in {index["name"] for index in sa.inspect(op.get_bind()).get_indexes("operation")}:
        op.create_index(OF_TABLE, "operation", ["tbl_id", "status", "operation_id"])
