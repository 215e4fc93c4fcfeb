# SPDX-License-Identifier: Apache-2.0
"""The whole store over one database."""

from lakehand.core.ports import Store
from lakehand.store.access import SqlAudit, SqlSessions, SqlTokens
from lakehand.store.alerts import SqlAlerts
from lakehand.store.clock import DatabaseClock
from lakehand.store.database import Database
from lakehand.store.events import EventWriter, SqlEvents
from lakehand.store.fleet import SqlFleet
from lakehand.store.health import HealthWriter, SqlHealthHistory
from lakehand.store.inbox import SqlInbox
from lakehand.store.instances import SqlInstances
from lakehand.store.operations import SqlOperations
from lakehand.store.partition_hints import PartitionHintWriter, SqlPartitions
from lakehand.store.probes import SqlProbes
from lakehand.store.schedules import SqlSchedules
from lakehand.store.tables import SqlStates, SqlTables


class SqlStore(Store):
    """The store for SQLite, PostgreSQL and MySQL or MariaDB. The ports say what each method promises."""

    def __init__(self, database: Database) -> None:
        events, health = EventWriter(database.dialect), HealthWriter(database.dialect)
        self.database = database
        self.clock = DatabaseClock(database)
        self.tables = SqlTables(database)
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
