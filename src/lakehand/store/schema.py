# SPDX-License-Identifier: Apache-2.0
"""The schema as the code uses it; the migrations make it. Times are epoch milliseconds, documents are JSON text."""

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy.dialects import mysql

Id = BigInteger().with_variant(Integer, "sqlite")  # SQLite generates ids only for INTEGER
Key = String(250)
Word = String(64)
Digest = String(64)
LongText = Text().with_variant(mysql.LONGTEXT(), "mysql")
Document = LongText
Millis = BigInteger

# MySQL compares text case-insensitively by default.
ON_MYSQL: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}

metadata = MetaData()

tbl = Table(
    "tbl",
    metadata,
    Column("id", Id, primary_key=True),
    Column("db_name", Key, nullable=False),
    Column("table_name", Key, nullable=False),
    Column("base_path", String(1024), nullable=False),
    Column("owner", Key, nullable=False),
    Column("queue", Key, nullable=False),
    Column("action_types", LongText, nullable=False),
    Column("priority", Integer, nullable=False),
    Column("format", Word, nullable=False),
    Column("catalog", Key, nullable=False),
    Column("scheduling", Word, nullable=False),
    Column("heartbeat_timeout", Millis, nullable=False),
    Column("properties", Document, nullable=False),
    Column("location_key", Digest, nullable=False),
    Column("name_key", Digest),  # only while registered, only with a db_name, and only for the first of that name
    Column("paused", Boolean, nullable=False),
    Column("removed", Boolean, nullable=False),
    Column("change_token", LongText),
    Column("change_time", Millis),
    Column("look_time", Millis),
    Column("notify_time", Millis),
    Column("create_time", Millis, nullable=False),
    Column("update_time", Millis, nullable=False),
    Column("probe_due", Millis),
    Column("probe_token", Word),  # of the instance that claimed the last probe
    UniqueConstraint("location_key", name="uq_tbl_location"),
    UniqueConstraint("name_key", name="uq_tbl_name"),
    Index("ix_tbl_names", "db_name", "table_name"),
    Index("ix_tbl_probe", "probe_due"),
    **ON_MYSQL,
)

operation = Table(
    "operation",
    metadata,
    Column("operation_id", Id, primary_key=True),
    Column("tbl_id", Id, ForeignKey("tbl.id", name="fk_operation_tbl"), nullable=False),
    Column("instant", Key, nullable=False),
    Column("action", Word, nullable=False),
    Column("status", Word, nullable=False),
    Column("engine", Word, nullable=False),
    Column("job", Key, nullable=False),
    Column("plan_instant", Key),
    Column("parameters", Document, nullable=False),
    Column("conflict_class", String(200), nullable=False),
    Column("urgent", Boolean, nullable=False),
    Column("purpose", LongText, nullable=False),
    Column("priority", Integer, nullable=False),
    Column("queue", Key, nullable=False),
    Column("owner", Key, nullable=False),
    Column("origin", Word, nullable=False),
    Column("retry_on_error", Boolean, nullable=False),
    Column("run_times", Integer, nullable=False),
    Column("patience", Integer, nullable=False),
    Column("is_deleted", Boolean, nullable=False),
    Column("cancel_requested", Boolean, nullable=False),
    Column("not_before", Millis, nullable=False),
    Column("lease_holder", Key),
    Column("lease_token", Word),
    Column("lease_until", Millis),
    Column("active_slot", Key),  # set while leased; unique: one live operation per table and conflict class
    Column("place", Key),  # set while leased, if such operations are limited: one of that many dispatch slots
    Column("handle", Key),
    Column("reason", LongText, nullable=False),
    Column("progress", Document, nullable=False),
    Column("result", Document, nullable=False),
    Column("failure", Document),
    Column("schedule_time", Millis, nullable=False),
    Column("create_time", Millis, nullable=False),
    Column("update_time", Millis, nullable=False),
    Column("submit_time", Millis),
    Column("start_time", Millis),
    Column("finish_time", Millis),
    UniqueConstraint("tbl_id", "instant", name="uq_operation_instant"),
    UniqueConstraint("active_slot", name="uq_operation_slot"),
    Index("ix_operation_tbl", "tbl_id", "operation_id"),
    Index("ix_operation_tbl_status", "tbl_id", "status", "operation_id"),
    Index("ix_operation_status", "status", "operation_id"),
    Index("ix_operation_lease", "lease_until"),
    Index("ix_operation_holder", "lease_holder"),
    Index("ix_operation_finish", "finish_time"),
    Index("uq_operation_place", "place", unique=True),
    sqlite_autoincrement=True,  # an id is never reused, not even after the newest row was deleted
    **ON_MYSQL,
)

attempt = Table(
    "attempt",
    metadata,
    Column("attempt_id", Id, primary_key=True),
    Column(
        "operation_id",
        Id,
        ForeignKey("operation.operation_id", name="fk_attempt_operation", ondelete="CASCADE"),
        nullable=False,
    ),
    Column("number", Integer, nullable=False),
    Column("handle", Key, nullable=False),
    Column("engine", Word, nullable=False),
    Column("instance", Key, nullable=False),
    Column("start_time", Millis, nullable=False),
    Column("finish_time", Millis),
    Column("outcome", Word, nullable=False),
    Column("failure", Document),
    Column("result", Document, nullable=False),
    UniqueConstraint("operation_id", "handle", name="uq_attempt_handle"),
    **ON_MYSQL,
)

schedule = Table(
    "schedule",
    metadata,
    Column("tbl_id", Id, ForeignKey("tbl.id", name="fk_schedule_tbl"), primary_key=True, autoincrement=False),
    Column("action", Word, primary_key=True),
    Column("due", Millis, nullable=False),
    Column("wakes", Integer, nullable=False),
    Column("last_start", Millis),
    Column("last_look", Millis),
    Column("last_decision", Millis),
    Column("decide_at", Millis),
    Column("seen_token", LongText),
    Column("last_reason", LongText, nullable=False),
    Column("lease_holder", Key),
    Column("lease_token", Word),
    Column("lease_until", Millis),
    Index("ix_schedule_due", "due"),
    Index("ix_schedule_lease", "lease_until", "due"),
    **ON_MYSQL,
)

table_state = Table(
    "table_state",
    metadata,
    Column("tbl_id", Id, ForeignKey("tbl.id", name="fk_table_state_tbl"), primary_key=True, autoincrement=False),
    Column("factory", Key, primary_key=True),
    Column("state_key", Key, primary_key=True),
    Column("value", Document, nullable=False),
    **ON_MYSQL,
)

event = Table(
    "event",
    metadata,
    Column("event_id", Id, primary_key=True),
    Column("kind", Word, nullable=False),
    Column("message", LongText, nullable=False),
    Column("tbl_id", Id),
    Column("operation_id", Id),
    Column("detail", Document, nullable=False),
    Column("fingerprint", Key),
    Column("times", Integer, nullable=False),
    Column("first_time", Millis, nullable=False),
    Column("event_time", Millis, nullable=False),
    UniqueConstraint("fingerprint", name="uq_event_fingerprint"),
    Index("ix_event_tbl", "tbl_id", "event_time", "event_id"),
    Index("ix_event_operation", "operation_id", "event_time", "event_id"),
    Index("ix_event_time", "event_time", "event_id"),
    **ON_MYSQL,
)

instance = Table(
    "instance",
    metadata,
    Column("instance_id", Key, primary_key=True),
    Column("host", Key, nullable=False),
    Column("version", Word, nullable=False),
    Column("start_time", Millis, nullable=False),
    Column("beat_time", Millis, nullable=False),
    Column("detail", Document, nullable=False),
    **ON_MYSQL,
)
