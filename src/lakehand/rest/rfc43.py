# SPDX-License-Identifier: Apache-2.0
"""RFC-43's JSON endpoints: submit and remove by table and instant, register by base path. 4xx on bad input."""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Path, Response
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from lakehand.api.fields import Location, Name, Priority, Properties, Seconds
from lakehand.api.operations import OperationAnswer, OperationRequest, operation_answer
from lakehand.api.tables import NewTable, TableAnswer, table_answer
from lakehand.core.intake.notifications import own_name
from lakehand.core.ports import NotificationRules
from lakehand.core.services.operations import check_hudi_options
from lakehand.core.services.tables import TableService
from lakehand.domain.access import Caller
from lakehand.domain.actions import Action
from lakehand.domain.errors import Invalid, NotFound
from lakehand.domain.locations import EXTRA_LOCATIONS
from lakehand.domain.processes import Json
from lakehand.domain.tables import Table
from lakehand.rest.context import ApiContext
from lakehand.rest.dependencies import Context, Writer
from lakehand.rest.wire_requests import ACTIONS, wanted_engine

router = APIRouter(prefix="/v1/hoodie/service", tags=["RFC-43"])
Service = Annotated[str, Path(pattern="^(compact|cluster|clean)$", examples=["compact"])]
MOST_INSTANTS = 1000
NEW_TABLE: TypeAdapter[NewTable] = TypeAdapter(NewTable)
MOST_PARALLEL = 1_000_000
_RESOURCE = re.compile(r"(?:[a-z]{1,16}:)?[0-9]{1,6}[kmgt]?[:,][0-9]{1,6}[kmgt]?", re.IGNORECASE)
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
    retry_on_error: bool = True


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
    """Submit pending plans for execution. An upsert: a repeat changes what waits, where it says something else."""
    action = ACTIONS[service]
    more = {
        **read_resource(request.resource),
        **read_parallelism(request.parallelism),
        "options": read_options(request.extra_params, context.intake.rules),
    }
    engine = wanted_engine(request.execution_engine)
    context.services.operations.check_engine(engine)
    texts = request.instant.split(",")[:MOST_INSTANTS]
    instants = dict.fromkeys(context.services.operations.read_instant(text.strip()) for text in texts)
    table = submitted_table(request, action, context, writer)
    wanted = [
        OperationRequest(
            table=table.id,
            action=action,
            instant=instant,
            engine=engine,
            queue=own_name(request.queue),
            owner=own_name(request.owner),
            retry_on_error=request.retry_on_error,
        )
        for instant in instants
    ]
    stored = [context.services.operations.submit(writer, one, more)[0] for one in wanted]
    return SubmittedAnswer(table=table.id, operations=[operation_answer(one, table) for one in stored])


@router.post("/{service}/remove")
def remove(service: Service, request: RemoveRequest, context: Context, writer: Writer) -> OperationAnswer:
    """Remove an operation whose plan was rolled back or is no longer wanted; if it runs, cancel it."""
    table = known_table(request, context.services.tables)
    instant = context.services.operations.read_instant(request.instant)
    return operation_answer(*context.services.operations.remove(writer, table, ACTIONS[service], instant))


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
    table, is_new = context.services.tables.add(writer, new_table(request, actions, context, **more))
    response.status_code = 201 if is_new else 200
    return table_answer(table)


def new_table(request: OwnedTable, actions: Sequence[str], context: ApiContext, **more: Any) -> NewTable:
    given: dict[str, Any] = request.model_dump(include={"db_name", "table_name"}) | {"location": request.base_path}
    given |= {"format": context.intake.rules.format, "action_types": actions}
    given |= {"owner": request.owner or "default", "queue": request.queue or "default"}
    try:
        return NEW_TABLE.validate_python(given | more)
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
    return context.services.tables.add(writer, new_table(request, [action], context))[0]


def known_table(request: NamedTable, tables: TableService) -> Table:
    if request.base_path is not None:
        return tables.find(request.base_path)
    if not request.table_name:
        raise Invalid("the request names no table: give table_name with db_name, or base_path")
    return tables.by_name(request.db_name, request.table_name)


def read_options(text: str, rules: NotificationRules) -> Mapping[str, str]:
    """``extra_params``: ``key=value`` pairs separated by semicolons."""
    parts = (part.partition("=") for part in text.split(";") if part.strip())
    options = {key.strip(): value.strip() for key, _, value in parts}
    check_hudi_options(options, rules)
    return options


def read_resource(text: str) -> Mapping[str, Json]:
    """Memory of driver and executor: ``4g:4g`` as in RFC-43, ``spark:4g,4g`` as Hudi's client sends it."""
    if not text:
        return {}
    if not _RESOURCE.fullmatch(text):
        raise Invalid(f"{text[:40]!a} is not a resource setting: write 4g:4g (driver:executor) or spark:4g,4g")
    return {"resource": text}


def read_parallelism(value: int | str | None) -> Mapping[str, Json]:
    if value in (None, ""):
        return {}
    text = str(value)
    if not re.fullmatch(r"[0-9]{1,7}", text) or not 1 <= int(text) <= MOST_PARALLEL:
        raise Invalid(f"{text[:40]!a} is not a parallelism: a number from 1 to {MOST_PARALLEL}")
    return {"parallelism": text}
