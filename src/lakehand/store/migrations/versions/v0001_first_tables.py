# SPDX-License-Identifier: Apache-2.0
"""The first tables: RFC-43's tbl and operation, completed, and what the service remembers around them."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")  # SQLite numbers rows by itself only where the type is INTEGER
Key = sa.String(250)
Word = sa.String(64)
Digest = sa.String(64)
Prose = sa.Text().with_variant(mysql.LONGTEXT(), "mysql")
Document = Prose
Millis = sa.BigInteger

# MySQL compares text without regard to case unless it is told otherwise.
ON_MYSQL: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}

metadata = sa.MetaData()

sa.Table(
    "tbl",
    metadata,
    sa.Column("id", Id, primary_key=True),
    sa.Column("db_name", Key, nullable=False),
    sa.Column("table_name", Key, nullable=False),
    sa.Column("base_path", sa.String(1024), nullable=False),
    sa.Column("owner", Key, nullable=False),
    sa.Column("queue", Key, nullable=False),
    sa.Column("action_types", Prose, nullable=False),
    sa.Column("priority", sa.Integer, nullable=False),
    sa.Column("format", Word, nullable=False),
    sa.Column("catalog", Key, nullable=False),
    sa.Column("scheduling", Word, nullable=False),
    sa.Column("heartbeat_timeout", Millis, nullable=False),
    sa.Column("properties", Document, nullable=False),
    sa.Column("location_key", Digest, nullable=False),
    sa.Column("name_key", Digest),
    sa.Column("paused", sa.Boolean, nullable=False),
    sa.Column("removed", sa.Boolean, nullable=False),
    sa.Column("change_token", Prose),
    sa.Column("change_time", Millis),
    sa.Column("look_time", Millis),
    sa.Column("notify_time", Millis),
    sa.Column("create_time", Millis, nullable=False),
    sa.Column("update_time", Millis, nullable=False),
    sa.UniqueConstraint("location_key", name="uq_tbl_location"),
    sa.UniqueConstraint("name_key", name="uq_tbl_name"),
    sa.Index("ix_tbl_names", "db_name", "table_name"),
    **ON_MYSQL,
)

sa.Table(
    "operation",
    metadata,
    sa.Column("operation_id", Id, primary_key=True),
    sa.Column("tbl_id", Id, sa.ForeignKey("tbl.id", name="fk_operation_tbl"), nullable=False),
    sa.Column("instant", Key, nullable=False),
    sa.Column("action", Word, nullable=False),
    sa.Column("status", Word, nullable=False),
    sa.Column("engine", Word, nullable=False),
    sa.Column("job", Key, nullable=False),
    sa.Column("plan_instant", Key),
    sa.Column("parameters", Document, nullable=False),
    sa.Column("conflict_class", sa.String(200), nullable=False),
    sa.Column("urgent", sa.Boolean, nullable=False),
    sa.Column("purpose", Prose, nullable=False),
    sa.Column("priority", sa.Integer, nullable=False),
    sa.Column("queue", Key, nullable=False),
    sa.Column("owner", Key, nullable=False),
    sa.Column("origin", Word, nullable=False),
    sa.Column("retry_on_error", sa.Boolean, nullable=False),
    sa.Column("run_times", sa.Integer, nullable=False),
    sa.Column("patience", sa.Integer, nullable=False),
    sa.Column("is_deleted", sa.Boolean, nullable=False),
    sa.Column("cancel_requested", sa.Boolean, nullable=False),
    sa.Column("not_before", Millis, nullable=False),
    sa.Column("lease_holder", Key),
    sa.Column("lease_token", Word),
    sa.Column("lease_until", Millis),
    sa.Column("active_slot", Key),
    sa.Column("handle", Key),
    sa.Column("reason", Prose, nullable=False),
    sa.Column("progress", Document, nullable=False),
    sa.Column("result", Document, nullable=False),
    sa.Column("failure", Document),
    sa.Column("schedule_time", Millis, nullable=False),
    sa.Column("create_time", Millis, nullable=False),
    sa.Column("update_time", Millis, nullable=False),
    sa.Column("submit_time", Millis),
    sa.Column("start_time", Millis),
    sa.Column("finish_time", Millis),
    sa.UniqueConstraint("tbl_id", "instant", name="uq_operation_instant"),
    sa.UniqueConstraint("active_slot", name="uq_operation_slot"),
    sa.Index("ix_operation_tbl", "tbl_id", "operation_id"),
    sa.Index("ix_operation_status", "status", "operation_id"),
    sa.Index("ix_operation_lease", "lease_until"),
    sa.Index("ix_operation_holder", "lease_holder"),
    sa.Index("ix_operation_finish", "finish_time"),
    sqlite_autoincrement=True,  # a number is never used twice, not even after the newest row was removed
    **ON_MYSQL,
)

sa.Table(
    "attempt",
    metadata,
    sa.Column("attempt_id", Id, primary_key=True),
    sa.Column(
        "operation_id",
        Id,
        sa.ForeignKey("operation.operation_id", name="fk_attempt_operation", ondelete="CASCADE"),
        nullable=False,
    ),
    sa.Column("number", sa.Integer, nullable=False),
    sa.Column("handle", Key, nullable=False),
    sa.Column("engine", Word, nullable=False),
    sa.Column("instance", Key, nullable=False),
    sa.Column("start_time", Millis, nullable=False),
    sa.Column("finish_time", Millis),
    sa.Column("outcome", Word, nullable=False),
    sa.Column("failure", Document),
    sa.Column("result", Document, nullable=False),
    sa.UniqueConstraint("operation_id", "handle", name="uq_attempt_handle"),
    **ON_MYSQL,
)

sa.Table(
    "schedule",
    metadata,
    sa.Column("tbl_id", Id, sa.ForeignKey("tbl.id", name="fk_schedule_tbl"), primary_key=True, autoincrement=False),
    sa.Column("action", Word, primary_key=True),
    sa.Column("due", Millis, nullable=False),
    sa.Column("wakes", sa.Integer, nullable=False),
    sa.Column("last_start", Millis),
    sa.Column("last_look", Millis),
    sa.Column("last_reason", Prose, nullable=False),
    sa.Column("lease_holder", Key),
    sa.Column("lease_token", Word),
    sa.Column("lease_until", Millis),
    sa.Index("ix_schedule_due", "due"),
    sa.Index("ix_schedule_lease", "lease_until", "due"),
    **ON_MYSQL,
)

sa.Table(
    "table_state",
    metadata,
    sa.Column("tbl_id", Id, sa.ForeignKey("tbl.id", name="fk_table_state_tbl"), primary_key=True, autoincrement=False),
    sa.Column("factory", Key, primary_key=True),
    sa.Column("state_key", Key, primary_key=True),
    sa.Column("value", Document, nullable=False),
    **ON_MYSQL,
)

sa.Table(
    "event",
    metadata,
    sa.Column("event_id", Id, primary_key=True),
    sa.Column("kind", Word, nullable=False),
    sa.Column("message", Prose, nullable=False),
    sa.Column("tbl_id", Id),
    sa.Column("operation_id", Id),
    sa.Column("detail", Document, nullable=False),
    sa.Column("fingerprint", Key),
    sa.Column("times", sa.Integer, nullable=False),
    sa.Column("first_time", Millis, nullable=False),
    sa.Column("event_time", Millis, nullable=False),
    sa.UniqueConstraint("fingerprint", name="uq_event_fingerprint"),
    sa.Index("ix_event_tbl", "tbl_id", "event_time", "event_id"),
    sa.Index("ix_event_operation", "operation_id", "event_time", "event_id"),
    sa.Index("ix_event_time", "event_time", "event_id"),
    **ON_MYSQL,
)

sa.Table(
    "instance",
    metadata,
    sa.Column("instance_id", Key, primary_key=True),
    sa.Column("host", Key, nullable=False),
    sa.Column("version", Word, nullable=False),
    sa.Column("start_time", Millis, nullable=False),
    sa.Column("beat_time", Millis, nullable=False),
    sa.Column("detail", Document, nullable=False),
    **ON_MYSQL,
)


def upgrade() -> None:
    # MySQL keeps what was created before a crash: go on from there.
    metadata.create_all(op.get_bind(), checkfirst=True)
