# SPDX-License-Identifier: Apache-2.0
"""Requests and answers for tables."""

from datetime import timedelta
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from lakehand.domain.actions import Action
from lakehand.domain.errors import Invalid
from lakehand.domain.tables import HEARTBEAT_TIMEOUT, Format, Scheduling, Table, TableChanges, TableSpec
from lakehand.rest.fields import (
    ActionName,
    Location,
    Moment,
    Name,
    Priority,
    Properties,
    Seconds,
    read_actions,
)

ActionNames = Annotated[list[ActionName], Field(max_length=32, examples=[["compaction", "clean"]])]


class NewTable(BaseModel):
    """A table to register."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"location": "/data/trips", "table_name": "trips", "action_types": ["compaction", "clean"]}]
        },
    )

    location: Location = Field(description="Its base path or URI, under one of the configured warehouses.")
    format: Name = Field(
        default="",
        description="Empty: recognised by what is at the location.",
        examples=["hudi"],
    )
    db_name: Name = Field(default="", examples=["sales"])
    table_name: Name = Field(default="", description="Empty: the last part of the location.", examples=["trips"])
    owner: Name = Field(default="default", min_length=1)
    queue: Name = Field(default="default", min_length=1)
    priority: Priority = 0
    action_types: ActionNames | None = Field(
        default=None,
        min_length=1,
        description="What Lakehand does for it. Default: compaction for hudi, else all actions of the format.",
    )
    scheduling: Scheduling = Field(
        default=Scheduling.WRITER, description="writer: run the writer's plans; service: plan, too."
    )
    heartbeat_timeout: Seconds | None = Field(
        default=None, description="Seconds after which it is probed without a notification."
    )
    catalog: Name = ""
    properties: Properties = Field(default={}, description="Options of this table, for instance thresholds.")

    def spec(self, heartbeat_timeout: timedelta = HEARTBEAT_TIMEOUT) -> TableSpec:
        own = self.heartbeat_timeout
        return TableSpec(
            location=self.location,
            format=Format(self.format),
            db_name=self.db_name,
            table_name=self.table_name,
            owner=self.owner,
            queue=self.queue,
            priority=self.priority,
            action_types=read_actions(self.action_types or []),
            scheduling=self.scheduling,
            heartbeat_timeout=heartbeat_timeout if own is None else timedelta(seconds=own),
            catalog=self.catalog,
            properties=self.properties,
        )


class ChangedTable(BaseModel):
    """Changes to a table; what is left out stays."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"priority": 5}, {"action_types": ["+clustering"]}]}
    )

    owner: Name | None = Field(default=None, min_length=1)
    queue: Name | None = Field(default=None, min_length=1)
    priority: Priority | None = None
    action_types: ActionNames | None = Field(
        default=None, description="All actions, or only changes: `+clustering`, `-clean`."
    )
    scheduling: Scheduling | None = None
    heartbeat_timeout: Seconds | None = None
    properties: Properties | None = Field(default=None, description="Replaces all of them.")
    paused: bool | None = None

    def changes(self, table: Table) -> TableChanges:
        seconds = self.heartbeat_timeout
        return TableChanges(
            owner=self.owner,
            queue=self.queue,
            priority=self.priority,
            action_types=None if self.action_types is None else merged(table.spec.action_types, self.action_types),
            scheduling=self.scheduling,
            heartbeat_timeout=None if seconds is None else timedelta(seconds=seconds),
            properties=self.properties,
            paused=self.paused,
        )


def merged(present: frozenset[Action], names: list[str]) -> frozenset[Action]:
    """A plain list replaces the actions; signed names add and remove."""
    signed = [name for name in names if name[:1] in ("+", "-")]
    if not signed:
        wanted = read_actions(names)
    elif len(signed) < len(names):
        raise Invalid(
            "the list mixes names and signed changes: give either all actions, or changes (+clustering, -clean)"
        )
    else:
        added = read_actions([name[1:] for name in signed if name[0] == "+"])
        wanted = (present | added) - read_actions([name[1:] for name in signed if name[0] == "-"])
    if not wanted:
        raise Invalid("no action would be left: pause or remove the table instead")
    return wanted


class TableName(BaseModel):
    """A table as other answers mention it."""

    id: int
    db_name: str
    table_name: str
    location: str
    format: str

    @classmethod
    def of(cls, table: Table) -> "TableName":
        spec = table.spec
        return cls(
            id=table.id, db_name=spec.db_name, table_name=spec.table_name, location=spec.location, format=spec.format
        )


class TableAnswer(TableName):
    name: str
    owner: str
    queue: str
    priority: int
    action_types: list[str]
    scheduling: Scheduling
    heartbeat_timeout: float
    catalog: str
    properties: dict[str, str]
    paused: bool
    removed: bool
    changed_at: Moment | None = Field(description="When a probe last found a change.")
    looked_at: Moment | None
    notified_at: Moment | None = Field(description="When a writer last sent a notification.")
    created_at: Moment
    updated_at: Moment

    @classmethod
    def of(cls, table: Table) -> "TableAnswer":
        spec = table.spec
        return cls(
            id=table.id,
            name=table.name,
            db_name=spec.db_name,
            table_name=spec.table_name,
            location=spec.location,
            format=spec.format,
            owner=spec.owner,
            queue=spec.queue,
            priority=spec.priority,
            action_types=sorted(spec.action_types),
            scheduling=spec.scheduling,
            heartbeat_timeout=spec.heartbeat_timeout.total_seconds(),
            catalog=spec.catalog,
            properties=dict(spec.properties),
            paused=table.paused,
            removed=table.removed,
            changed_at=table.changed_at,
            looked_at=table.looked_at,
            notified_at=table.notified_at,
            created_at=table.created_at,
            updated_at=table.updated_at,
        )


class RemovedTable(BaseModel):
    id: int
    removed: bool = True
