# SPDX-License-Identifier: Apache-2.0
"""The schema as the code uses it; the migrations make it. Times are epoch milliseconds, documents are JSON text."""

from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, ForeignKey, Index, MetaData, Table, UniqueConstraint
from sqlalchemy.dialects import mysql

Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")  # SQLite generates ids only for INTEGER
Key = sa.String(250)
Word = sa.String(64)
Digest = sa.String(64)
PathKey = sa.String(700).with_variant(sa.String(700, collation="C"), "postgresql")  # ordered byte by byte
LongText = sa.Text().with_variant(mysql.LONGTEXT(), "mysql")
Document = LongText
Millis = sa.BigInteger()
Flag = sa.Boolean()
Number = sa.Integer()

# MySQL compares text case-insensitively by default.
ON_MYSQL: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}

metadata = MetaData()


def required(kind: Any, *names: str) -> list[Column[Any]]:
    return [Column(name, kind, nullable=False) for name in names]


def optional(kind: Any, *names: str) -> list[Column[Any]]:
    return [Column(name, kind) for name in names]


tbl = Table(
    "tbl",
    metadata,
    Column("id", Id, primary_key=True),
    *required(Key, "db_name", "table_name", "owner", "queue", "catalog"),
    *required(sa.String(1024), "base_path"),
    *required(LongText, "action_types", "properties"),
    *required(Number, "priority"),
    *required(Word, "format", "scheduling"),
    *required(Millis, "heartbeat_timeout", "create_time", "update_time"),
    *required(Flag, "paused", "removed"),
    *optional(LongText, "change_token"),
    *optional(Millis, "change_time", "look_time", "notify_time", "probe_due"),  # look_time: probed_at elsewhere
    Column("probe_token", Word),  # of the instance that claimed the last probe
    Column("location_key", Digest, nullable=False),
    Column("name_key", Digest),  # only while registered, only with a db_name, and only for the first of that name
    Column("problem", sa.Text),  # why it cannot be read; NULL while it can
    *optional(Millis, "problem_time"),  # since when
    *optional(Millis, "health_time"),  # of the newest point of its health, whose numbers follow
    *optional(sa.BigInteger, "files", "small_files", "bytes", "small_bytes"),
    Column("pause_reason", sa.Text),  # why the service paused it; NULL if it is not paused, or a person did it
    Column("problem_stays", Flag),  # true: its metadata was read and could not be understood, which no probe can see
    Column("path_key", PathKey),  # of the location behind all links; NULL if a version stored it that has none
    UniqueConstraint("location_key", name="uq_tbl_location"),
    UniqueConstraint("name_key", name="uq_tbl_name"),
    Index("ix_tbl_names", "db_name", "table_name"),
    Index("ix_tbl_probe", "probe_due"),
    Index("ix_tbl_path", "path_key"),
    **ON_MYSQL,
)

operation = Table(
    "operation",
    metadata,
    Column("operation_id", Id, primary_key=True),
    Column("tbl_id", Id, ForeignKey("tbl.id", name="fk_operation_tbl"), nullable=False),
    *required(Key, "instant", "job", "queue", "owner"),
    *required(Word, "action", "status", "engine", "origin"),
    *required(sa.String(200), "conflict_class"),
    *required(Document, "parameters", "progress", "result"),
    *required(LongText, "purpose", "reason"),
    *required(Number, "priority", "run_times", "patience"),
    *required(Flag, "urgent", "is_deleted", "cancel_requested"),
    Column("retry_on_error", Flag, nullable=False),  # False: one attempt
    *required(Millis, "not_before", "schedule_time", "create_time", "update_time"),
    *optional(Millis, "submit_time", "start_time", "finish_time"),
    *optional(Key, "plan_instant", "handle"),
    *optional(Document, "failure"),
    Column("lease_holder", Key),
    Column("lease_token", Word),
    Column("lease_until", Millis),
    Column("active_slot", Key),  # set while leased; unique: one live operation per table and conflict class
    Column("place", Key),  # set while leased, if such operations are limited: one of that many dispatch slots
    Column("wanted_engine", Word),  # that its request asked for; NULL: the service chooses
    # True: its request set it. Otherwise it is that of the table, and follows it while the operation waits.
    *optional(Flag, "has_own_priority", "has_own_queue", "has_own_owner"),
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

OF_OPERATION = ForeignKey("operation.operation_id", name="fk_attempt_operation", ondelete="CASCADE")
attempt = Table(
    "attempt",
    metadata,
    Column("attempt_id", Id, primary_key=True),
    Column("operation_id", Id, OF_OPERATION, nullable=False),
    *required(Number, "number"),
    *required(Key, "handle", "instance"),
    *required(Word, "engine", "outcome"),
    *required(Millis, "start_time"),
    *required(Document, "result"),
    *optional(Millis, "finish_time"),
    *optional(Document, "failure"),
    *optional(Key, "external_id"),
    *optional(sa.String(1000), "external_url"),
    UniqueConstraint("operation_id", "handle", name="uq_attempt_handle"),
    **ON_MYSQL,
)

schedule = Table(
    "schedule",
    metadata,
    Column("tbl_id", Id, ForeignKey("tbl.id", name="fk_schedule_tbl"), primary_key=True, autoincrement=False),
    Column("action", Word, primary_key=True),
    *required(Millis, "due"),
    *required(Number, "wakes"),
    *optional(Millis, "last_start", "last_look", "last_decision", "decide_at"),  # last_look: evaluated_at elsewhere
    *optional(LongText, "seen_token"),
    *required(LongText, "last_reason"),
    Column("lease_holder", Key),
    Column("lease_token", Word),
    Column("lease_until", Millis),
    Column("failed_operation", Id),  # the last operation of this action, if it failed for good
    Index("ix_schedule_due", "due"),
    Index("ix_schedule_failed", "failed_operation"),
    Index("ix_schedule_lease", "lease_until", "due"),
    **ON_MYSQL,
)

table_state = Table(
    "table_state",
    metadata,
    Column("tbl_id", Id, ForeignKey("tbl.id", name="fk_table_state_tbl"), primary_key=True, autoincrement=False),
    Column("factory", Key, primary_key=True),
    Column("state_key", Key, primary_key=True),
    *required(Document, "value"),
    **ON_MYSQL,
)

partition_hint = Table(
    "partition_hint",
    metadata,
    Column("tbl_id", Id, ForeignKey("tbl.id", name="fk_partition_hint_tbl"), primary_key=True, autoincrement=False),
    Column("version", sa.BigInteger, nullable=False),  # never the same again, so that a decision knows what it saw
    Column("names", LongText),  # a JSON list, or "many"; NULL: nothing was named since a decision used it
    **ON_MYSQL,
)

event = Table(
    "event",
    metadata,
    Column("event_id", Id, primary_key=True),
    *required(Word, "kind"),
    *required(LongText, "message"),
    *optional(Id, "tbl_id", "operation_id"),
    *required(Document, "detail"),
    *optional(Key, "fingerprint"),
    *required(Number, "times"),
    *required(Millis, "first_time", "event_time"),
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
    *required(Key, "host"),
    *required(Word, "version"),
    *required(Millis, "start_time", "beat_time"),
    *required(Document, "detail"),
    **ON_MYSQL,
)

# A round-robin archive: each tier has a fixed number of slots, which newer points overwrite.
health_point = Table(
    "health_point",
    metadata,
    Column("tbl_id", Id, ForeignKey("tbl.id", name="fk_health_point_tbl"), primary_key=True, autoincrement=False),
    Column("tier", Number, primary_key=True, autoincrement=False),
    Column("slot", Number, primary_key=True, autoincrement=False),
    *required(Millis, "point_time"),
    *required(sa.Text, "numbers"),
    Index("ix_health_point_time", "point_time"),
    **ON_MYSQL,
)

fleet_point = Table(
    "fleet_point",
    metadata,
    Column("point_time", Millis, primary_key=True, autoincrement=False),
    Column("owner", Key, primary_key=True),
    *required(sa.BigInteger, "tables", "files", "small_files", "bytes", "small_bytes"),
    **ON_MYSQL,
)

# What finished operations did, counted when they end: a million rows are never read for a page.
operation_hour = Table(
    "operation_hour",
    metadata,
    Column("hour", Millis, primary_key=True, autoincrement=False),
    Column("action", Word, primary_key=True),
    Column("status", Word, primary_key=True),
    *required(sa.BigInteger, "operations", "attempts", "files_removed", "bytes_rewritten", "wait_millis", "run_millis"),
    **ON_MYSQL,
)

alert = Table(
    "alert",
    metadata,
    Column("alert_id", Id, primary_key=True),
    *required(Key, "cause_key", "occurrence", "owner", "queue", "instance"),
    *required(Word, "kind", "severity", "format"),
    *required(LongText, "title", "message"),
    *required(Number, "times"),
    *required(Millis, "open_time", "seen_time"),
    *optional(Millis, "resolve_time", "silence_time", "remind_time"),
    *optional(Id, "tbl_id", "operation_id"),
    Column("open_key", Key),  # the cause's key while it is open; unique: one instance opens it
    Column("open_token", Word),  # of the transaction that opened it
    UniqueConstraint("open_key", name="uq_alert_open"),
    Index("ix_alert_cause", "cause_key", "resolve_time"),
    Index("ix_alert_resolve", "resolve_time"),
    sqlite_autoincrement=True,
    **ON_MYSQL,
)

OF_ALERT = ForeignKey("alert.alert_id", name="fk_alert_message_alert", ondelete="CASCADE")
alert_message = Table(
    "alert_message",
    metadata,
    Column("message_id", Id, primary_key=True),
    Column("alert_id", Id, OF_ALERT),  # NULL: a summary
    *required(Key, "receiver"),
    *required(Word, "kind"),
    *required(Number, "attempts", "more"),
    *required(Millis, "create_time", "due"),
    *required(LongText, "last_error"),
    *optional(Millis, "sent_time", "end_time", "lease_until"),  # end_time: sent, or given up
    Column("lease_holder", Key),
    Column("lease_token", Word),
    Column("summary_key", Key),
    UniqueConstraint("summary_key", name="uq_alert_message_summary"),
    Index("ix_alert_message_due", "end_time", "due"),
    Index("ix_alert_message_alert", "alert_id", "receiver", "message_id"),
    Index("ix_alert_message_create", "receiver", "create_time"),
    sqlite_autoincrement=True,
    **ON_MYSQL,
)

api_token = Table(
    "api_token",
    metadata,
    Column("token_id", Id, primary_key=True),
    *required(Key, "name", "owner", "create_by"),
    *required(Word, "hash", "role"),
    *required(Millis, "create_time"),
    *optional(Millis, "expire_time", "revoke_time", "use_time"),
    UniqueConstraint("hash", name="uq_api_token_hash"),
    sqlite_autoincrement=True,
    **ON_MYSQL,
)

web_session = Table(
    "web_session",
    metadata,
    Column("hash", Word, primary_key=True),
    *required(Key, "name", "owner"),
    *required(Word, "role", "seal"),
    *required(Millis, "create_time", "end_time"),
    Column("token_id", Id),
    Index("ix_web_session_end", "end_time"),
    **ON_MYSQL,
)

audit_request = Table(
    "audit_request",
    metadata,
    Column("audit_id", Id, primary_key=True),
    *required(Millis, "audit_time"),
    *required(Key, "caller", "owner", "address"),
    *required(Word, "role", "via", "action"),
    *required(LongText, "subject", "detail", "before_state"),
    *optional(Id, "tbl_id", "operation_id"),
    Index("ix_audit_request_time", "audit_time"),
    Index("ix_audit_request_caller", "caller", "audit_id"),
    Index("ix_audit_request_table", "tbl_id", "audit_id"),
    Index("ix_audit_request_operation", "operation_id", "audit_id"),
    sqlite_autoincrement=True,
    **ON_MYSQL,
)

audit_answer = Table(  # apart from the request, so that no row of the trail is ever changed
    "audit_answer",
    metadata,
    Column("audit_id", Id, primary_key=True, autoincrement=False),
    *required(Millis, "answer_time"),
    *required(Word, "code"),
    *required(LongText, "message", "after_state"),
    **ON_MYSQL,
)
