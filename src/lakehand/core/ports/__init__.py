# SPDX-License-Identifier: Apache-2.0
"""The ports of the core: store, clock, metrics, ids. A contract suite checks each implementation."""

from lakehand.core.ports.access import Audit, AuditFilter, Sessions, Tokens
from lakehand.core.ports.alerts import Alerts, AlertsChanged
from lakehand.core.ports.fleet import Fleet, LostLease, TableTrouble, Troubles
from lakehand.core.ports.instances import Instance, Instances
from lakehand.core.ports.operations import OperationEnd, OperationFilter, Operations
from lakehand.core.ports.plugins import PairReport, PluginReport
from lakehand.core.ports.records import Events, Inbox
from lakehand.core.ports.store import Store
from lakehand.core.ports.tables import (
    DueProbe,
    DueSchedules,
    HealthHistory,
    Partitions,
    Probes,
    Schedules,
    States,
    TableFilter,
    Tables,
)
from lakehand.core.ports.world import Clock, IdSource, Metrics

__all__ = [
    "Alerts",
    "AlertsChanged",
    "Audit",
    "AuditFilter",
    "Clock",
    "DueProbe",
    "DueSchedules",
    "Events",
    "Fleet",
    "HealthHistory",
    "IdSource",
    "Inbox",
    "Instance",
    "Instances",
    "LostLease",
    "Metrics",
    "OperationEnd",
    "OperationFilter",
    "Operations",
    "PairReport",
    "Partitions",
    "PluginReport",
    "Probes",
    "Schedules",
    "Sessions",
    "States",
    "Store",
    "TableFilter",
    "TableTrouble",
    "Tables",
    "Tokens",
    "Troubles",
]
