# SPDX-License-Identifier: Apache-2.0
"""The audit trail: who asked for what, from where, what it changed, and what the answer was."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NewType

from lakehand.domain.access import Caller
from lakehand.domain.operations import OperationId
from lakehand.domain.processes import Json
from lakehand.domain.tables import TableId

AuditId = NewType("AuditId", int)
OK = "ok"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRequest:
    """What somebody asked for. Stored before it is carried out."""

    caller: Caller
    action: str  # for instance "table.pause"
    subject: str  # the name of what it is about, for people
    table: TableId | None = None
    operation: OperationId | None = None
    detail: Mapping[str, Json] = field(default_factory=dict)  # what was given
    before: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditAnswer:
    """What became of it."""

    code: str  # "ok", or the code of the error
    message: str = ""
    after: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    id: AuditId
    at: datetime
    request: AuditRequest
    answer: AuditAnswer | None  # None: not known, for instance because the process was killed meanwhile
    answered_at: datetime | None = None
