# SPDX-License-Identifier: Apache-2.0
"""Tokens with roles, sessions of the dashboard, and the audit trail."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

ON_MYSQL: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}
ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")
KEY, WORD = sa.String(250), sa.String(64)
TEXT = sa.Text().with_variant(mysql.LONGTEXT(), "mysql")


def upgrade() -> None:
    """MySQL keeps what was added before a crash: go on from there."""
    create(
        "api_token",
        sa.Column("token_id", ID, primary_key=True),
        *columns(KEY, "name", "owner", "create_by"),
        *columns(WORD, "hash", "role"),
        *columns(sa.BigInteger, "create_time"),
        *columns(sa.BigInteger, "expire_time", "revoke_time", "use_time", nullable=True),
        sa.UniqueConstraint("hash", name="uq_api_token_hash"),
        sqlite_autoincrement=True,
    )
    create(
        "web_session",
        sa.Column("hash", WORD, primary_key=True),
        *columns(KEY, "name", "owner"),
        *columns(WORD, "role", "seal"),
        *columns(sa.BigInteger, "create_time", "end_time"),
        sa.Column("token_id", ID),
    )
    add_index("web_session", "ix_web_session_end", "end_time")
    create(
        "audit_request",
        sa.Column("audit_id", ID, primary_key=True),
        *columns(sa.BigInteger, "audit_time"),
        *columns(KEY, "caller", "owner", "address"),
        *columns(WORD, "role", "via", "action"),
        *columns(TEXT, "subject", "detail", "before_state"),
        *columns(ID, "tbl_id", "operation_id", nullable=True),
        sqlite_autoincrement=True,
    )
    add_index("audit_request", "ix_audit_request_time", "audit_time")
    add_index("audit_request", "ix_audit_request_caller", "caller", "audit_id")
    add_index("audit_request", "ix_audit_request_table", "tbl_id", "audit_id")
    add_index("audit_request", "ix_audit_request_operation", "operation_id", "audit_id")
    create(
        "audit_answer",
        sa.Column("audit_id", ID, primary_key=True, autoincrement=False),
        *columns(sa.BigInteger, "answer_time"),
        *columns(WORD, "code"),
        *columns(TEXT, "message", "after_state"),
    )


def columns(kind: Any, *names: str, nullable: bool = False) -> list[sa.Column[Any]]:
    return [sa.Column(name, kind, nullable=nullable) for name in names]


def add_index(table: str, name: str, *names: str) -> None:
    if name not in {index["name"] for index in sa.inspect(op.get_bind()).get_indexes(table)}:
        op.create_index(name, table, list(names))


def create(name: str, *parts: Any, **options: Any) -> None:
    if not sa.inspect(op.get_bind()).has_table(name):
        op.create_table(name, *parts, **options, **ON_MYSQL)
