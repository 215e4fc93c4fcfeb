# SPDX-License-Identifier: Apache-2.0
"""Answers about tables."""

from pydantic import BaseModel, Field
from typing_extensions import Self

from lakehand.domain.tables import Scheduling, Table
from lakehand.rest import fields
from lakehand.rest.fields import Answer, Moment


class HealthAnswer(Answer):
    """The numbers of a table at one time. Names that do not apply to its format are missing."""

    at: Moment
    numbers: fields.Document = Field(
        examples=[{"files": 120, "bytes": 5368709120, "small_files": 40, "small_bytes": 8388608}]
    )


class TableAnswer(Answer):
    id: int
    db_name: str
    table_name: str
    location: str
    format: str
    name: str
    owner: str
    queue: str
    priority: int
    action_types: fields.SortedNames
    scheduling: Scheduling
    heartbeat_timeout: fields.SpanSeconds
    catalog: str
    properties: dict[str, str]
    paused: bool
    pause_reason: str = Field(description="Why Lakehand paused it; empty if a person did, or if it is not paused.")
    removed: bool
    changed_at: Moment | None = Field(description="When a probe last found a change.")
    looked_at: Moment | None
    notified_at: Moment | None = Field(description="When a writer last sent a notification.")
    created_at: Moment
    updated_at: Moment
    problem: str = Field(description="Why it cannot be read; empty while it can.")
    problem_since: Moment | None
    health: HealthAnswer | None = Field(description="Its newest files, small_files, bytes and small_bytes.")

    @classmethod
    def of(cls, table: Table) -> Self:
        return cls(**fields.fields_of(table.spec, table) | {"name": table.name})


class SettingAnswer(Answer):
    key: str
    value: str = Field(description="As people write it: `7d`, `128MB`, `true`.")
    origin: str = Field(description="default, plugin (the operator's settings) or table.")
    floor: str = Field(description="No lower value counts; empty: none.")
    meaning: str


class SettingsAnswer(Answer):
    items: list[SettingAnswer]


class RemovedTable(BaseModel):
    id: int
    removed: bool = True
