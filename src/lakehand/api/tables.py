# SPDX-License-Identifier: Apache-2.0
"""Requests and answers about tables, their settings, and their health over time."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

from lakehand.api.fields import (
    STRICT,
    ActionName,
    Answer,
    Checked,
    Document,
    GivenName,
    GivenTime,
    Location,
    LongName,
    Moment,
    Name,
    Paging,
    Priority,
    Properties,
    Seconds,
    about,
    answer,
)
from lakehand.domain.fleet import TableState
from lakehand.domain.operations import Status
from lakehand.domain.tables import Scheduling

if TYPE_CHECKING:
    from lakehand.domain.health import HealthPoint
    from lakehand.domain.tables import Table

EXAMPLES = [["compaction", "clean"]]
ActionNames = Annotated[list[ActionName], Checked(max_length=32, examples=EXAMPLES)]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTable:
    """A table to register."""

    __pydantic_config__ = STRICT | {
        "json_schema_extra": {
            "examples": [{"location": "/data/trips", "table_name": "trips", "action_types": EXAMPLES[0]}]
        }
    }

    location: Location = field(metadata=about("Its base path or URI, under one of the configured warehouses."))
    format: Name = field(default="", metadata=about("Empty: recognised by what is at the location.", examples=["hudi"]))
    db_name: Name = field(default="", metadata=about(examples=["sales"]))
    table_name: Name = field(default="", metadata=about("Empty: the last part of the location.", examples=["trips"]))
    owner: GivenName = "default"
    queue: GivenName = "default"
    priority: Priority = 0
    action_types: Annotated[list[ActionName], Checked(min_length=1, max_length=32, examples=EXAMPLES)] | None = field(
        default=None,
        metadata=about("What Lakehand does for it. Default: compaction for hudi, else all that are not optional."),
    )
    scheduling: Scheduling = field(
        default=Scheduling.WRITER, metadata=about("writer: run the writer's plans; service: plan, too.")
    )
    heartbeat_timeout: Seconds | None = field(
        default=None, metadata=about("Seconds after which it is probed without a notification.")
    )
    catalog: Name = ""
    properties: Properties = field(
        default_factory=dict,
        metadata=about("Options of this table, for instance thresholds.", default={}),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedTable:
    """Changes to a table; what is left out stays."""

    __pydantic_config__ = STRICT | {
        "json_schema_extra": {"examples": [{"priority": 5}, {"action_types": ["+clustering"]}]}
    }

    owner: GivenName | None = None
    queue: GivenName | None = None
    priority: Priority | None = None
    action_types: ActionNames | None = field(
        default=None, metadata=about("All actions, or only changes: `+clustering`, `-clean`.")
    )
    scheduling: Scheduling | None = None
    heartbeat_timeout: Seconds | None = None
    properties: Properties | None = field(default=None, metadata=about("Replaces all of them."))
    paused: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableQuery(Paging):
    location: LongName | None = None
    owner: Name | None = None
    queue: Name | None = None
    paused: bool | None = None
    removed: bool = False
    db_name: Name | None = None
    table_name: Name | None = None
    format: Name | None = None
    catalog: Name | None = None
    state: TableState | None = None
    search: LongName | None = field(
        default=None, metadata=about("A part of `db.name` or of the location, in any case.")
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FindQuery:
    name: Name


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryQuery:
    since: GivenTime | None = field(
        default=None, metadata=about("Nothing older: a time by RFC 3339.", examples=["2026-11-15T19:10:13Z"])
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TableName(Answer):
    """A table as other answers mention it."""

    id: int
    db_name: str
    table_name: str
    location: str
    format: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthAnswer(Answer):
    """The numbers of a table at one time. Names that do not apply to its format are missing."""

    at: Moment
    numbers: Document = field(
        metadata=about(examples=[{"files": 120, "bytes": 5368709120, "small_files": 40, "small_bytes": 8388608}])
    )


@dataclass(frozen=True, slots=True, kw_only=True)
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
    pause_reason: str = field(metadata=about("Why Lakehand paused it; empty if a person did, or if it is not paused."))
    removed: bool
    changed_at: Moment | None = field(metadata=about("When a probe last found a change."))
    probed_at: Moment | None = field(metadata=about("When it was last probed."))
    notified_at: Moment | None = field(metadata=about("When a writer last sent a notification."))
    created_at: Moment
    updated_at: Moment
    problem: str = field(metadata=about("Why it cannot be read; empty while it can."))
    problem_since: Moment | None
    health: HealthAnswer | None = field(metadata=about("Its newest files, small_files, bytes and small_bytes."))


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedTable(Answer):
    id: int
    removed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingAnswer(Answer):
    key: str
    value: str = field(metadata=about("As people write it: `7d`, `128MB`, `true`."))
    origin: str = field(metadata=about("default, plugin (the operator's settings) or table."))
    floor: str = field(metadata=about("No lower value counts; empty: none."))
    meaning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsAnswer(Answer):
    items: list[SettingAnswer]


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationEndAnswer(Answer):
    id: int
    action: str
    status: Status
    finished_at: Moment
    result: Document = field(metadata=about("The numbers of its result.", examples=[{"files_removed": 40}]))


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryAnswer(Answer):
    """The health of a table over time, oldest first: at most 368 points, the sparser the older."""

    table: TableAnswer
    points: list[HealthAnswer]
    operations: list[OperationEndAnswer] = field(metadata=about("What ended in that time: the newest 500."))


def health_answer(point: "HealthPoint") -> HealthAnswer:
    return HealthAnswer(at=point.at, numbers=dict(point.numbers))


def table_name(table: "Table") -> TableName:
    return answer(TableName, table.spec, table)


def table_answer(table: "Table") -> TableAnswer:
    spec = table.spec
    return answer(
        TableAnswer, spec, table, action_types=sorted(spec.action_types), properties=dict(spec.properties),
        heartbeat_timeout=spec.heartbeat_timeout.total_seconds(),
        health=health_answer(table.health) if table.health else None,
    )  # fmt: skip
