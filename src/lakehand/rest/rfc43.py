# SPDX-License-Identifier: Apache-2.0
"""RFC-43's JSON endpoints: submit and remove by table and instant, register by base path; 4xx on bad input."""

from typing import Annotated

from fastapi import APIRouter, Path, Response
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lakehand.core.table_service import TableService
from lakehand.domain.actions import Action
from lakehand.domain.boundaries import EXTRA_LOCATIONS
from lakehand.domain.errors import Invalid, NotFound
from lakehand.domain.tables import Format, Table, TableSpec
from lakehand.rest.access import FacesHere, Operations, Tables, Writer
from lakehand.rest.faces import Faces
from lakehand.rest.fields import Location, Name, Priority, Properties, Seconds, read_instant
from lakehand.rest.operation_shapes import OperationAnswer
from lakehand.rest.operations import shown
from lakehand.rest.parameters import read_options, read_parallelism, read_resource
from lakehand.rest.table_shapes import NewTable, TableAnswer
from lakehand.rest.wire_letters import ACTIONS

router = APIRouter(prefix="/v1/hoodie/service", tags=["RFC-43"])
Service = Annotated[str, Path(pattern="^(compact|cluster|clean)$", examples=["compact"])]
MOST_INSTANTS = 1000


class NamedTable(BaseModel):
    """A table as RFC-43 names it; the base path is ours, for tables that share a name."""

    model_config = ConfigDict(extra="ignore")

    db_name: Name = ""
    table_name: Name = ""
    base_path: Location | None = None


class Submitted(NamedTable):
    model_config = ConfigDict(
        extra="ignore",
        json_schema_extra={
            "examples": [
                {
                    "db_name": "sales", "table_name": "trips", "owner": "default", "queue": "default",
                    "instant": "20261115191013982", "resource": "4g:4g", "parallelism": "1000",
                    "execution_engine": "Spark", "extra_params": "",
                }
            ]
        },
    )  # fmt: skip

    owner: Name = "default"
    queue: Name = "default"
    instant: Annotated[str, Field(min_length=1, max_length=20_000)] = Field(description="One, or several with commas.")
    resource: Name = Field(default="", examples=["4g:4g", "spark:4g,4g"])
    parallelism: int | Name | None = Field(default=None, examples=["1000"])
    execution_engine: Name = Field(default="", examples=["Spark"])
    extra_params: Annotated[str, Field(max_length=4000)] = ""


class Removed(NamedTable):
    instant: Name


class Registered(BaseModel):
    model_config = ConfigDict(
        extra="ignore",
        json_schema_extra={
            "examples": [{"table_name": "trips", "base_path": "/data/trips", "action_types": "compaction,clean"}]
        },
    )  # fmt: skip

    base_path: Location
    db_name: Name = ""
    table_name: Name = ""
    owner: Name = "default"
    queue: Name = "default"
    action_types: Name | list[Name] = Field(default="compaction", description="A list, or names with commas.")
    priority: Priority = 0
    heartbeat_timeout: Seconds | None = None
    properties: Properties = {}


class SubmittedAnswer(BaseModel):
    table: int
    operations: list[OperationAnswer]


@router.post("/{service}/submit")
def submit(service: Service, asked: Submitted, faces: FacesHere, writer: Writer) -> SubmittedAnswer:
    """Ask for the execution of pending plans. Everything is an upsert: the same again changes nothing."""
    action = ACTIONS[service]
    parameters = {
        **read_resource(asked.resource),
        **read_parallelism(asked.parallelism),
        "options": dict(read_options(asked.extra_params)),
    }
    check_engine(asked.execution_engine, faces)
    instants = [read_instant(text.strip()) for text in asked.instant.split(",")[:MOST_INSTANTS]]
    table = submitted_table(asked, action, faces, writer)
    stored = [faces.operations.submit(table, action, i, parameters, origin=writer) for i in dict.fromkeys(instants)]
    return SubmittedAnswer(table=table.id, operations=[OperationAnswer.of(operation, table) for operation, _ in stored])


@router.post("/{service}/remove")
def remove(service: Service, asked: Removed, tables: Tables, operations: Operations, writer: Writer) -> OperationAnswer:
    """The plan was rolled back or is no longer wanted: deleted in the service, canceled if it runs."""
    table = known_table(asked, tables)
    instant = read_instant(asked.instant)
    return shown(operations, operations.remove(table, instant, by=writer))


@router.post(
    "/register", status_code=201, responses={200: {"model": TableAnswer, "description": "Registered already."}}
)
def register(asked: Registered, faces: FacesHere, writer: Writer, response: Response) -> TableAnswer:
    """Register a Hudi table."""
    table, is_new = faces.tables.add(new_table(asked).spec(faces.intake.heartbeat_timeout), by=writer)
    response.status_code = 201 if is_new else 200
    return TableAnswer.of(table)


def new_table(asked: Registered) -> NewTable:
    if EXTRA_LOCATIONS in asked.properties:
        raise Invalid(f"{EXTRA_LOCATIONS} widens what may be deleted; no writer says it: lakehand tables change")
    names = asked.action_types.split(",") if isinstance(asked.action_types, str) else asked.action_types
    try:
        return NewTable(
            location=asked.base_path,
            db_name=asked.db_name,
            table_name=asked.table_name,
            owner=asked.owner or "default",
            queue=asked.queue or "default",
            action_types=[str(ACTIONS.get(name.strip(), name.strip())) for name in names if name.strip()],
            priority=asked.priority,
            heartbeat_timeout=asked.heartbeat_timeout,
            properties=asked.properties,
        )
    except ValidationError as error:
        wrong = error.errors()[0]
        raise Invalid(f"{'.'.join(map(str, wrong['loc']))}: {wrong['msg']}") from error


def submitted_table(asked: Submitted, action: Action, faces: Faces, writer: str) -> Table:
    """The registered table; one that is new and names its base path is registered for this action alone."""
    try:
        return known_table(asked, faces.tables)
    except NotFound:
        if asked.base_path is None:
            raise
    spec = TableSpec(
        location=asked.base_path,
        format=Format("hudi"),
        db_name=asked.db_name,
        table_name=asked.table_name,
        owner=asked.owner or "default",
        queue=asked.queue or "default",
        action_types=frozenset({action}),
        heartbeat_timeout=faces.intake.heartbeat_timeout,
    )
    return faces.tables.add(spec, by=writer)[0]


def known_table(asked: NamedTable, tables: TableService) -> Table:
    if asked.base_path is not None:
        return tables.find(asked.base_path)
    if not asked.table_name:
        raise Invalid("name the table: table_name with db_name, or base_path")
    return tables.by_name(asked.db_name, asked.table_name)


def check_engine(name: str, faces: Faces) -> None:
    if name and name.lower() not in faces.engines:
        raise Invalid(f"the engine {name[:40]!a} is not known; on are: {', '.join(sorted(faces.engines))}")
