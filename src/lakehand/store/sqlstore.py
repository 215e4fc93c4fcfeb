# SPDX-License-Identifier: Apache-2.0
"""The whole store over one database, and the instances of the service that share it, by their heartbeats."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, delete, insert, select, update

from lakehand.core.ports import Instance, Store
from lakehand.domain.operations import InstanceId
from lakehand.domain.processes import Json
from lakehand.store.access import SqlAudit, SqlSessions, SqlTokens
from lakehand.store.alerts import SqlAlerts
from lakehand.store.clock import DatabaseClock, to_millis, to_time
from lakehand.store.database import Database
from lakehand.store.documents import from_document, to_document
from lakehand.store.events import EventWriter, SqlEvents
from lakehand.store.fleet import OperationHours, SqlFleet
from lakehand.store.health import HealthWriter, SqlHealthHistory
from lakehand.store.inbox import SqlInbox
from lakehand.store.operations import SqlOperations
from lakehand.store.partition_hints import PartitionHintWriter, SqlPartitions
from lakehand.store.probes import SqlProbes
from lakehand.store.schedules import SqlSchedules
from lakehand.store.schema import instance
from lakehand.store.tables import SqlStates, SqlTables
from lakehand.store.waiting_operations import WaitingOperations


@dataclass(frozen=True, slots=True)
class SqlInstances:
    database: Database

    def heartbeat(self, id: InstanceId, *, host: str, version: str, detail: Mapping[str, Json], now: datetime) -> None:
        seen = {"host": host, "version": version, "detail": to_document(detail), "beat_time": to_millis(now)}

        def write(tx: Connection) -> None:
            known = tx.execute(update(instance).where(instance.c.instance_id == id).values(seen))
            if known.rowcount == 0:
                tx.execute(insert(instance).values(instance_id=id, start_time=to_millis(now), **seen))

        self.database.write(write)

    def list(self) -> Sequence[Instance]:
        query = select(instance).order_by(instance.c.start_time, instance.c.instance_id)
        return [
            Instance(
                id=InstanceId(row.instance_id),
                host=row.host,
                version=row.version,
                started_at=to_time(row.start_time),
                seen_at=to_time(row.beat_time),
                detail=from_document(row.detail),
            )
            for row in self.database.read(lambda tx: tx.execute(query).all())
        ]

    def remove_before(self, before: datetime) -> int:
        gone = delete(instance).where(instance.c.beat_time < to_millis(before))
        return self.database.write(lambda tx: tx.execute(gone).rowcount)


class SqlStore(Store):
    """The store for SQLite, PostgreSQL and MySQL or MariaDB. The ports say what each method promises."""

    def __init__(self, database: Database) -> None:
        events, health = EventWriter(database.dialect), HealthWriter(database.dialect)
        self.database = database
        self.clock = DatabaseClock(database)
        self.tables = SqlTables(database, WaitingOperations(events, OperationHours(database.dialect)))
        self.operations = SqlOperations(database, events, health)
        self.probes = SqlProbes(database, health)
        self.schedules = SqlSchedules(database)
        self.inbox = SqlInbox(database, events, PartitionHintWriter(database.dialect))
        self.events = SqlEvents(database, events)
        self.states = SqlStates(database)
        self.partitions = SqlPartitions(database)
        self.instances = SqlInstances(database)
        self.health = SqlHealthHistory(database)
        self.fleet = SqlFleet(database)
        self.alerts = SqlAlerts(database, events)
        self.tokens = SqlTokens(database)
        self.sessions = SqlSessions(database)
        self.audit = SqlAudit(database)

    def problem(self) -> str:
        return self.database.problem

    def check_writes(self) -> None:
        self.database.check_writes()

    def close(self) -> None:
        self.database.close()


def open_store(url: str) -> SqlStore:
    """Open a store by its database's URL; its schema must have been brought up to date by ``migrate.upgrade``."""
    return SqlStore(Database(url))
