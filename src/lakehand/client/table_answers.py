# SPDX-License-Identifier: Apache-2.0
"""Tables as the service answers them."""

from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from lakehand.api.fields import Answer
from lakehand.api.tables import TableName
from lakehand.client.documents import Document

TableRef: TypeAlias = int | str | TableName  # its id; a text as tables.get takes it; or a table of an earlier answer


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthPoint(Answer):
    """The numbers of a table at one time, such as files and small_files; what the format does not have is missing."""

    at: datetime
    numbers: Document


@dataclass(frozen=True, slots=True, kw_only=True)
class Table(TableName):
    name: str
    owner: str
    queue: str
    priority: int
    action_types: list[str]
    scheduling: str
    heartbeat_timeout: float  # seconds
    catalog: str
    properties: dict[str, str]
    paused: bool
    pause_reason: str  # why the service paused it; empty if a person did, or if it is not paused
    removed: bool
    changed_at: datetime | None  # when a probe last found a change
    looked_at: datetime | None
    notified_at: datetime | None
    created_at: datetime
    updated_at: datetime
    problem: str  # why it cannot be read; empty while it can
    problem_since: datetime | None
    health: HealthPoint | None  # the newest


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedTable(Table):
    is_new: bool  # False: it was registered already, maybe by an earlier attempt of the same call


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedTable(Answer):
    id: int
    removed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting(Answer):
    """A setting of a table's format, with the value that counts."""

    key: str
    value: str
    origin: str  # default, plugin or table
    floor: str  # no lower value counts; empty: none
    meaning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationEnd(Answer):
    id: int
    action: str
    status: str
    finished_at: datetime
    result: Document


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthHistory(Answer):
    """The health of a table over time, oldest first, and the operations that ended meanwhile."""

    table: Table
    points: list[HealthPoint]
    operations: list[OperationEnd]
