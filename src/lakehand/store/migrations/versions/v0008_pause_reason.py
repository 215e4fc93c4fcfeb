# SPDX-License-Identifier: Apache-2.0
"""A table that the service itself has paused says why."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """MySQL keeps what was added before a crash: go on from there."""
    if "pause_reason" not in {known["name"] for known in sa.inspect(op.get_bind()).get_columns("tbl")}:
        op.add_column("tbl", sa.Column("pause_reason", sa.Text))
