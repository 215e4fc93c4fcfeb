# SPDX-License-Identifier: Apache-2.0
"""What requests about tables may contain."""

from datetime import timedelta
from typing import Annotated

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from lakehand.domain.actions import Action
from lakehand.domain.errors import Invalid
from lakehand.domain.fleet import TableState
from lakehand.domain.tables import HEARTBEAT_TIMEOUT, Scheduling, Table, TableChanges, TableSpec
from lakehand.inputs import fields
from lakehand.inputs.fields import LongName, Name, OwnedQuery

ActionNames = Annotated[list[fields.ActionName], Field(max_length=32, examples=[["compaction", "clean"]])]
GivenName = Annotated[Name, Field(min_length=1)]


class NewTable(BaseModel):
    """A table to register."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"location": "/data/trips", "table_name": "trips", "action_types": ["compaction", "clean"]}]
        },
    )

    location: fields.Location = Field(description="Its base path or URI, under one of the configured warehouses.")
    format: Name = Field(default="", description="Empty: recognised by what is at the location.", examples=["hudi"])
    db_name: Name = Field(default="", examples=["sales"])
    table_name: Name = Field(default="", description="Empty: the last part of the location.", examples=["trips"])
    owner: GivenName = "default"
    queue: GivenName = "default"
    priority: fields.Priority = 0
    action_types: ActionNames | None = Field(
        default=None,
        min_length=1,
        description="What Lakehand does for it. Default: compaction for hudi, else all that are not optional.",
    )
    scheduling: Scheduling = Field(
        default=Scheduling.WRITER, description="writer: run the writer's plans; service: plan, too."
    )
    heartbeat_timeout: fields.Seconds | None = Field(
        default=None, description="Seconds after which it is probed without a notification."
    )
    catalog: Name = ""
    properties: fields.Properties = Field(default={}, description="Options of this table, for instance thresholds.")

    def spec(self, heartbeat_timeout: timedelta = HEARTBEAT_TIMEOUT) -> TableSpec:
        given = self.model_dump() | {"action_types": frozenset(map(Action, self.action_types or []))}
        own = self.heartbeat_timeout
        return TableSpec(**given | {"heartbeat_timeout": timedelta(seconds=own) if own else heartbeat_timeout})


class ChangedTable(BaseModel):
    """Changes to a table; what is left out stays."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"priority": 5}, {"action_types": ["+clustering"]}]}
    )

    owner: GivenName | None = None
    queue: GivenName | None = None
    priority: fields.Priority | None = None
    action_types: ActionNames | None = Field(
        default=None, description="All actions, or only changes: `+clustering`, `-clean`."
    )
    scheduling: Scheduling | None = None
    heartbeat_timeout: fields.Seconds | None = None
    properties: fields.Properties | None = Field(default=None, description="Replaces all of them.")
    paused: bool | None = None

    def changes(self, table: Table) -> TableChanges:
        given = self.model_dump(exclude_none=True)
        if self.action_types is not None:
            given["action_types"] = merged(table.spec.action_types, self.action_types)
        if self.heartbeat_timeout is not None:
            given["heartbeat_timeout"] = timedelta(seconds=self.heartbeat_timeout)
        return TableChanges(**given)


def merged(present: frozenset[Action], names: list[str]) -> frozenset[Action]:
    """A plain list replaces the actions; signed names add and remove."""
    signs = {name[:1] in ("+", "-") for name in names}
    if len(signs) > 1:
        raise Invalid(
            "the list mixes names and signed changes: give either all actions, or changes (+clustering, -clean)"
        )
    if signs == {True}:
        added, removed = ({Action(name[1:]) for name in names if name[0] == sign} for sign in "+-")
        wanted = (present | added) - removed
    else:
        wanted = frozenset(map(Action, names))
    if not wanted:
        raise Invalid("no action would be left: pause or remove the table instead")
    return wanted


class TableQuery(OwnedQuery):
    paused: bool | None = None
    removed: bool = False
    db_name: Name | None = None
    table_name: Name | None = None
    format: Name | None = None
    catalog: Name | None = None
    state: TableState | None = None
    search: LongName | None = Field(default=None, description="A part of `db.name` or of the location, in any case.")


class HistoryQuery(BaseModel):
    since: AwareDatetime | None = Field(
        default=None, description="Nothing older: a time by RFC 3339.", examples=["2026-11-15T19:10:13Z"]
    )


class FindQuery(BaseModel):
    name: Name
