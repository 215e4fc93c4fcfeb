# SPDX-License-Identifier: Apache-2.0
"""What the request for an operation asked for, where the service would choose otherwise."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0011_0010"
down_revision = "0010_0009"
branch_labels = None
depends_on = None

COLUMNS: dict[str, Any] = {
    "wanted_engine": sa.String(64),
    "has_own_priority": sa.Boolean,
    "has_own_queue": sa.Boolean,
    "has_own_owner": sa.Boolean,
}


def upgrade() -> None:
    """MySQL keeps what was added before a crash: go on from there."""
    known = {column["name"] for column in sa.inspect(op.get_bind()).get_columns("operation")}
    for name, kind in COLUMNS.items():
        if name not in known:
            op.add_column("operation", sa.Column(name, kind))
