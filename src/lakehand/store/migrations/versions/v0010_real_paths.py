# SPDX-License-Identifier: Apache-2.0
"""The real path of each table, so that no two registered tables share a folder, and which problems stay."""

from urllib.parse import quote

import sqlalchemy as sa
from alembic import op

revision = "0010_0009"
down_revision = "0009"
branch_labels = None
depends_on = None

KEY = sa.String(700).with_variant(sa.String(700, collation="C"), "postgresql")
INDEX = "ix_tbl_path"
# As the code of this revision did it: one scheme per storage, ASCII, the first 700 characters.
ALIASES = {"s3a": "s3", "s3n": "s3", "abfss": "abfs", "wasbs": "wasb"}
PAGE = 1000
tbl = sa.table("tbl", sa.column("id"), sa.column("base_path"), sa.column("path_key"))


def upgrade() -> None:
    """MySQL keeps what was added before a crash: go on from there."""
    known = sa.inspect(op.get_bind())
    columns = {column["name"] for column in known.get_columns("tbl")}
    if "problem_stays" not in columns:
        op.add_column("tbl", sa.Column("problem_stays", sa.Boolean))
    if "path_key" not in columns:
        op.add_column("tbl", sa.Column("path_key", KEY))
    fill(op.get_bind())
    if INDEX not in {index["name"] for index in known.get_indexes("tbl")}:
        op.create_index(INDEX, "tbl", ["path_key"])


def fill(tx: sa.Connection) -> None:
    """With the locations as they are registered; each admission stores where the links lead."""
    page = sa.select(tbl.c.id, tbl.c.base_path).where(tbl.c.path_key.is_(None)).order_by(tbl.c.id).limit(PAGE)
    change = sa.update(tbl).where(tbl.c.id == sa.bindparam("table")).values(path_key=sa.bindparam("key"))
    while rows := tx.execute(page).all():
        tx.execute(change, [{"table": row.id, "key": key_of(row.base_path)} for row in rows])


def key_of(location: str) -> str:
    scheme, colon, rest = location.partition(":")
    if not location.startswith("/") and colon:
        location = f"{ALIASES.get(scheme, scheme)}:{rest}"
    return quote(location, safe="/:")[:700]
