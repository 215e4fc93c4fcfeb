# SPDX-License-Identifier: Apache-2.0
"""Alerts, and the outbox of their messages."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

ON_MYSQL: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}
ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")
KEY, WORD = sa.String(250), sa.String(64)
TEXT = sa.Text().with_variant(mysql.LONGTEXT(), "mysql")


def upgrade() -> None:
    """MySQL keeps what was added before a crash: go on from there."""
    create(
        "alert",
        sa.Column("alert_id", ID, primary_key=True),
        *columns(KEY, "cause_key", "occurrence", "owner", "queue", "instance"),
        *columns(WORD, "kind", "severity", "format"),
        *columns(TEXT, "title", "message"),
        *columns(sa.Integer, "times"),
        *columns(sa.BigInteger, "open_time", "seen_time"),
        *columns(sa.BigInteger, "resolve_time", "silence_time", "remind_time", nullable=True),
        *columns(ID, "tbl_id", "operation_id", nullable=True),
        sa.Column("open_key", KEY),
        sa.Column("open_token", WORD),
        sa.UniqueConstraint("open_key", name="uq_alert_open"),
        sqlite_autoincrement=True,
    )
    add_index("alert", "ix_alert_cause", "cause_key", "resolve_time")
    add_index("alert", "ix_alert_resolve", "resolve_time")
    create(
        "alert_message",
        sa.Column("message_id", ID, primary_key=True),
        sa.Column("alert_id", ID, sa.ForeignKey("alert.alert_id", name="fk_alert_message_alert", ondelete="CASCADE")),
        *columns(KEY, "receiver"),
        *columns(WORD, "kind"),
        *columns(sa.Integer, "attempts", "more"),
        *columns(sa.BigInteger, "create_time", "due"),
        *columns(TEXT, "last_error"),
        *columns(sa.BigInteger, "sent_time", "end_time", "lease_until", nullable=True),
        sa.Column("lease_holder", KEY),
        sa.Column("lease_token", WORD),
        sa.Column("summary_key", KEY),
        sa.UniqueConstraint("summary_key", name="uq_alert_message_summary"),
        sqlite_autoincrement=True,
    )
    add_index("alert_message", "ix_alert_message_due", "end_time", "due")
    add_index("alert_message", "ix_alert_message_alert", "alert_id", "receiver", "message_id")
    add_index("alert_message", "ix_alert_message_create", "receiver", "create_time")


def columns(kind: Any, *names: str, nullable: bool = False) -> list[sa.Column[Any]]:
    return [sa.Column(name, kind, nullable=nullable) for name in names]


def add_index(table: str, name: str, *names: str) -> None:
    if name not in {index["name"] for index in sa.inspect(op.get_bind()).get_indexes(table)}:
        op.create_index(name, table, list(names))


def create(name: str, *parts: Any, **options: Any) -> None:
    if not sa.inspect(op.get_bind()).has_table(name):
        op.create_table(name, *parts, **options, **ON_MYSQL)
