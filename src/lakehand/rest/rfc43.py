# SPDX-License-Identifier: Apache-2.0
"""RFC-43's JSON endpoints: submit and remove by table and instant, register by base path. 4xx on bad input."""

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Path, Response
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lakehand.core.services.tables import TableService
from lakehand.domain.access import Caller
from lakehand.domain.actions import Action
from lakehand.domain.boundaries import EXTRA_LOCATIONS
from lakehand.domain.errors import Invalid, NotFound
from lakehand.domain.tables import Table, TableSpec
from lakehand.inputs.fields import Location, Name, Priority, Properties, Seconds
from lakehand.inputs.parameters import read_instant, read_options, read_parallelism, read_resource
from lakehand.inputs.tables import NewTable
from lakehand.rest.access import Context, Writer
from lakehand.rest.context import ApiContext
from lakehand.rest.operations import OperationAnswer, answer_of
from lakehand.rest.table_shapes import TableAnswer
from lakehand.rest.wire_requests import ACTIONS

router = APIRouter(prefix="/v1/hoodie/service", tags=["RFC-43"])
Service = Annotated[str, Path(pattern="^(compact|cluster|clean)$", examples=["compact"])]
MOST_INSTANTS = 1000
SUBMIT_EXAMPLE: dict[str, Any] = {
    "db_name": "sales", "table_name": "trips", "owner": "default", "queue": "default", "instant": "20261115191013982",
    "resource": "4g:4g", "parallelism": "1000", "execution_engine": "Spark", "extra_params": "",
}  # fmt: skip
REGISTER_EXAMPLE: dict[str, Any] = {
    "table_name": "trips", "base_path": "/data/trips", "action_types": "compaction,clean",
}  # fmt: skip


class NamedTable(BaseModel):
    """A table as RFC-43 names it; the base path is our addition, for tables that share a name."""

    db_name: Name = ""
    table_name: Name = ""
    base_path: Location | None = None


class OwnedTable(NamedTable):
    owner: Name = "default"
    queue: Name = "default"


class SubmitRequest(OwnedTable):
    model_config = ConfigDict(json_schema_extra={"examples": [SUBMIT_EXAMPLE]})

    instant: str = Field(min_length=1, max_length=20_000, description="One, or several separated by commas.")
    resource: Name = Field(default="", examples=["4g:4g", "spark:4g,4g"])
    parallelism: int | Name | None = Field(default=None, examples=["1000"])
    execution_engine: Name = Field(default="", examples=["Spark"])
    extra_params: str = Field(default="", max_length=4000)


class RemoveRequest(NamedTable):
    instant: Name


class RegisterRequest(OwnedTable):
    model_config = ConfigDict(json_schema_extra={"examples": [REGISTER_EXAMPLE]})

    base_path: Location
    action_types: Name | list[Name] = Field(default="compaction", description="A list, or names separated by commas.")
    priority: Priority = 0
    heartbeat_timeout: Seconds | None = None
    properties: Properties = {}


class SubmittedAnswer(BaseModel):
    table: int
    operations: list[OperationAnswer]


@router.post("/{service}/submit")
def submit(service: Service, request: SubmitRequest, context: Context, writer: Writer) -> SubmittedAnswer:
    """Submit pending plans for execution. An upsert: repeating it changes nothing."""
    action, rules = ACTIONS[service], context.intake.rules
    parameters = {
        **read_resource(request.resource),
        **read_parallelism(request.parallelism),
        "options": dict(read_options(request.extra_params, rules)),
    }
    name = request.execution_engine
    if name and name.lower() not in context.engines:
        raise Invalid(f"the engine {name[:40]!a} is not known: use one of {', '.join(sorted(context.engines))}")
    instants = [read_instant(text.strip(), rules) for text in request.instant.split(",")[:MOST_INSTANTS]]
    table = submitted_table(request, action, context, writer)
    submit = partial(context.services.requests.operations.submit, writer, table, action, parameters=parameters)
    stored = [submit(instant=instant) for instant in dict.fromkeys(instants)]
    return SubmittedAnswer(table=table.id, operations=[OperationAnswer.of(operation, table) for operation, _ in stored])


@router.post("/{service}/remove")
def remove(service: Service, request: RemoveRequest, context: Context, writer: Writer) -> OperationAnswer:
    """Remove an operation whose plan was rolled back or is no longer wanted; if it runs, cancel it."""
    table = known_table(request, context.services.tables)
    instant = read_instant(request.instant, context.intake.rules)
    return answer_of(context, context.services.requests.operations.remove(writer, table, instant))


@router.post(
    "/register", status_code=201, responses={200: {"model": TableAnswer, "description": "Registered already."}}
)
def register(request: RegisterRequest, context: Context, writer: Writer, response: Response) -> TableAnswer:
    """Register a Hudi table."""
    if EXTRA_LOCATIONS in request.properties:
        raise Invalid(
            f"{EXTRA_LOCATIONS} widens what may be deleted, so no writer may set it: use lakehand tables change"
        )
    names = request.action_types.split(",") if isinstance(request.action_types, str) else request.action_types
    actions = [str(ACTIONS.get(name.strip(), name.strip())) for name in names if name.strip()]
    more = request.model_dump(include={"priority", "heartbeat_timeout", "properties"})
    table, is_new = context.services.requests.tables.add(writer, new_spec(request, actions, context, **more))
    response.status_code = 201 if is_new else 200
    return TableAnswer.of(table)


def new_spec(request: OwnedTable, actions: Sequence[str], context: ApiContext, **more: Any) -> TableSpec:
    given: dict[str, Any] = request.model_dump(include={"db_name", "table_name"}) | {"location": request.base_path}
    given |= {"format": context.intake.rules.format, "action_types": actions}
    given |= {"owner": request.owner or "default", "queue": request.queue or "default"}
    try:
        return NewTable(**given, **more).spec(context.intake.heartbeat_timeout)
    except ValidationError as error:
        wrong = error.errors()[0]
        raise Invalid(f"{'.'.join(map(str, wrong['loc']))}: {wrong['msg']}") from error


def submitted_table(request: SubmitRequest, action: Action, context: ApiContext, writer: Caller) -> Table:
    """The registered table; an unknown one with a base path is registered for this action alone."""
    try:
        return known_table(request, context.services.tables)
    except NotFound:
        if request.base_path is None:
            raise
    return context.services.requests.tables.add(writer, new_spec(request, [action], context))[0]


def known_table(request: NamedTable, tables: TableService) -> Table:
    if request.base_path is not None:
        return tables.find(request.base_path)
    if not request.table_name:
        raise Invalid("the request names no table: give table_name with db_name, or base_path")
    return tables.by_name(request.db_name, request.table_name)
