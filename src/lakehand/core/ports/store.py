# SPDX-License-Identifier: Apache-2.0
"""The store: every port that is kept in the database."""

from typing import Protocol

from lakehand.core.ports.access import Audit, Sessions, Tokens
from lakehand.core.ports.alerts import Alerts
from lakehand.core.ports.fleet import Fleet
from lakehand.core.ports.instances import Instances
from lakehand.core.ports.operations import Operations
from lakehand.core.ports.records import Events, Inbox
from lakehand.core.ports.tables import HealthHistory, Partitions, Probes, Schedules, States, Tables
from lakehand.core.ports.world import Clock


class Store(Protocol):
    """All of the above over one database."""

    clock: Clock
    tables: Tables
    operations: Operations
    probes: Probes
    schedules: Schedules
    inbox: Inbox
    events: Events
    states: States
    partitions: Partitions
    instances: Instances
    health: HealthHistory
    fleet: Fleet
    alerts: Alerts
    tokens: Tokens
    sessions: Sessions
    audit: Audit

    def problem(self) -> str:
        """Why nothing can be stored right now; empty while writes work, as far as is known."""

    def check_writes(self) -> None:
        """Raise Unavailable unless the database takes writes now. Cheap, and changes nothing."""

    def close(self) -> None:
        """Give all connections back."""
