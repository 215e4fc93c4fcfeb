# SPDX-License-Identifier: Apache-2.0
"""What a plugin implements and what it may rely on. Public: outside plugins import from here and nowhere else."""

from lakehand.domain.actions import Action
from lakehand.domain.errors import Busy, Invalid, LakehandError, RecoverProcessFailed, Unavailable
from lakehand.domain.operations import Handle, Operation, Status
from lakehand.domain.processes import Drop, Failure, Finding, Instant, Json, Remedy, Skip, TableProcess, Verdict
from lakehand.domain.tables import Catalog, Format, Scheduling, Table, TableReference, TableSpec
from lakehand.domain.texts import amount
from lakehand.spi.alerters import Alerter, AlertText
from lakehand.spi.config import Setting, TableConfig, layered
from lakehand.spi.engines import EngineContext, EngineHealth, EngineState, EngineStatus, ExecuteEngine, LeaseGrant, Work
from lakehand.spi.factories import METADATA_TRIGGER, ProcessFactory, ProcessTriggerStrategy, at_fixed_rate
from lakehand.spi.formats import CommittedTable, TableFormat, TableSnapshot
from lakehand.spi.health import size_histogram
from lakehand.spi.metrics import Counter, Gauge, PluginMetric
from lakehand.spi.pauses import pause
from lakehand.spi.runtimes import DetachedRuntime, StateKey, TableRuntime, UndeclaredState

__all__ = [
    "METADATA_TRIGGER",
    "Action",
    "AlertText",
    "Alerter",
    "Busy",
    "Catalog",
    "CommittedTable",
    "Counter",
    "DetachedRuntime",
    "Drop",
    "EngineContext",
    "EngineHealth",
    "EngineState",
    "EngineStatus",
    "ExecuteEngine",
    "Failure",
    "Finding",
    "Format",
    "Gauge",
    "Handle",
    "Instant",
    "Invalid",
    "Json",
    "LakehandError",
    "LeaseGrant",
    "Operation",
    "PluginMetric",
    "ProcessFactory",
    "ProcessTriggerStrategy",
    "RecoverProcessFailed",
    "Remedy",
    "Scheduling",
    "Setting",
    "Skip",
    "StateKey",
    "Status",
    "Table",
    "TableConfig",
    "TableFormat",
    "TableProcess",
    "TableReference",
    "TableRuntime",
    "TableSnapshot",
    "TableSpec",
    "Unavailable",
    "UndeclaredState",
    "Verdict",
    "Work",
    "amount",
    "at_fixed_rate",
    "layered",
    "pause",
    "size_histogram",
]
