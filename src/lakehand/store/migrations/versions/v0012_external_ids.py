# SPDX-License-Identifier: Apache-2.0
"""What an attempt is called where it runs, and the page about it there."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0012_0010"
down_revision = "0011_0010"
branch_labels = None
depends_on = None

COLUMNS: dict[str, Any] = {"external_id": sa.String(250), "external_url": sa.String(1000)}


def upgrade() -> None:
    """MySQL keeps what was added before a crash: go on from there."""
    known = {column["name"] for column in sa.inspect(op.get_bind()).get_columns("attempt")}
    for name, kind in COLUMNS.items():
        if name not in known:
            op.add_column("attempt", sa.Column(name, kind))
