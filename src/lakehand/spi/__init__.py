# SPDX-License-Identifier: Apache-2.0
"""What a plugin implements and what it may rely on. Public: outside plugins import from here and nowhere else."""

from lakehand.domain.actions import Action
from lakehand.domain.errors import Invalid, LakehandError, RecoverProcessFailed, Unavailable
from lakehand.domain.operations import Handle, Operation, Status
from lakehand.domain.processes import (
    Drop,
    Failure,
    Finding,
    Instant,
    Json,
    Remedy,
    Skip,
    TableProcess,
    Verdict,
)
from lakehand.domain.tables import Format, Scheduling, Table
from lakehand.spi.config import Setting, TableConfig, layered
from lakehand.spi.engines import (
    EngineContext,
    EngineHealth,
    EngineState,
    EngineStatus,
    ExecuteEngine,
    Until,
    Work,
)
from lakehand.spi.factories import METADATA_TRIGGER, ProcessFactory, ProcessTriggerStrategy, at_fixed_rate
from lakehand.spi.formats import TableFormat, TableSnapshot
from lakehand.spi.runtimes import StateKey, TableRuntime

__all__ = [
    "METADATA_TRIGGER",
    "Action",
    "Drop",
    "EngineContext",
    "EngineHealth",
    "EngineState",
    "EngineStatus",
    "ExecuteEngine",
    "Failure",
    "Finding",
    "Format",
    "Handle",
    "Instant",
    "Invalid",
    "Json",
    "LakehandError",
    "Operation",
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
    "TableRuntime",
    "TableSnapshot",
    "Unavailable",
    "Until",
    "Verdict",
    "Work",
    "at_fixed_rate",
    "layered",
]
