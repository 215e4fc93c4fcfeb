# SPDX-License-Identifier: Apache-2.0
"""RFC-43's JSON endpoints: submit and remove by table and instant, register by base path. 4xx on bad input."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Path, Response
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from lakehand.api.fields import Location, Name, Priority, Properties, Seconds
from lakehand.api.operations import OperationAnswer, operation_answer, read_resource
from lakehand.api.tables import NewTable, TableAnswer, table_answer
from lakehand.api.writers import MOST_INSTANTS, PlanRemoval, PlansAnswer, PlansRequest, plans_answer
from lakehand.core.intake.notifications import own_name
from lakehand.core.ports import NotificationRules
from lakehand.core.services.operations import check_hudi_options
from lakehand.domain.errors import Invalid
from lakehand.domain.locations import EXTRA_LOCATIONS
from lakehand.rest.context import ApiContext
from lakehand.rest.dependencies import Context, Writer
from lakehand.rest.wire_requests import ACTIONS, read_parallelism, wanted_engine

router = APIRouter(prefix="/v1/hoodie/service", tags=["RFC-43"])
Service = Annotated[str, Path(pattern="^(compact|cluster|clean)$", examples=["compact"])]
NEW_TABLE: TypeAdapter[NewTable] = TypeAdapter(NewTable)
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
    retry_on_error: bool | None = None


class RemoveRequest(NamedTable):
    instant: Name


class RegisterRequest(OwnedTable):
    model_config = ConfigDict(json_schema_extra={"examples": [REGISTER_EXAMPLE]})

    base_path: Location
    action_types: Name | list[Name] = Field(default="compaction", description="A list, or names separated by commas.")
    priority: Priority = 0
    heartbeat_timeout: Seconds | None = None
    properties: Properties = {}


@router.post("/{service}/submit")
def submit(service: Service, request: SubmitRequest, context: Context, writer: Writer) -> PlansAnswer:
    """Submit pending plans for execution. An upsert: a repeat changes what waits, where it says something else."""
    wanted = PlansRequest(
        location=request.base_path,
        db_name=request.db_name,
        table_name=request.table_name,
        action=str(ACTIONS[service]),
        instants=[text.strip() for text in request.instant.split(",")[:MOST_INSTANTS]],
        options=read_options(request.extra_params, context.intake.rules),
        resource=given(read_resource, request.resource),
        parallelism=int(given(read_parallelism, request.parallelism) or 0) or None,
        engine=wanted_engine(request.execution_engine),
        queue=own_name(request.queue),
        owner=own_name(request.owner),
        retry_on_error=request.retry_on_error,
    )
    return plans_answer(*context.services.operations.submit_plans(writer, wanted))


@router.post("/{service}/remove")
def remove(service: Service, request: RemoveRequest, context: Context, writer: Writer) -> OperationAnswer:
    """Remove an operation whose plan was rolled back or is no longer wanted; if it runs, cancel it."""
    names = request.model_dump(include={"db_name", "table_name", "instant"})
    wanted = PlanRemoval(location=request.base_path, action=str(ACTIONS[service]), **names)
    return operation_answer(*context.services.operations.remove_plan(writer, wanted))


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


def read_options(text: str, rules: NotificationRules) -> dict[str, str]:
    """``extra_params``: ``key=value`` pairs separated by semicolons."""
    parts = (part.partition("=") for part in text.split(";") if part.strip())
    options = {key.strip(): value.strip() for key, _, value in parts}
    check_hudi_options(options, rules)
    return options


def given(read: Callable[[str], str], value: int | str | None) -> str | None:
    """Its text, if there is one."""
    try:
        return None if value in (None, "") else read(str(value))
    except ValueError as error:
        raise Invalid(str(error)) from error
