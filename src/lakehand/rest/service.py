# SPDX-License-Identifier: Apache-2.0
"""Routes about the service itself: version, plugins, instances."""

from fastapi import APIRouter, Request
from pydantic import Field
from starlette.responses import JSONResponse, Response

from lakehand.inputs.fleet import DrainRequest
from lakehand.rest.access import Caller, Context
from lakehand.rest.fields import Answer, Document, Moment, SpanSeconds

router = APIRouter(prefix="/api/v1", tags=["service"])


class VersionAnswer(Answer):
    name: str = "lakehand"
    version: str
    instance: str
    python: str


class PairAnswer(Answer):
    """One action of one format, and its trigger strategy."""

    format: str
    action: str
    interval_seconds: SpanSeconds | None = Field(
        validation_alias="interval", description="Evaluated this long after the last start; null: not by time."
    )
    on_new_snapshot: bool = Field(description="Evaluated when the table has changed.")
    parallelism: int = Field(description="How many may run at once, over all instances; 0: no limit.")
    dry_run: bool = Field(description="Whether it supports a dry run.")
    is_used: bool = Field(description="False where another plugin has a higher priority for it.")


class PluginAnswer(Answer):
    kind: str
    name: str
    distribution: str
    version: str
    state: str = Field(description="on, failing, slow, stuck, off or broken.")
    reason: str
    priority: int
    pairs: dict[str, list[str]]
    strategies: list[PairAnswer]
    errors: int = Field(description="Calls in which it failed, since this process started.")
    hangs: int = Field(description="Calls that were abandoned because they did not return.")
    last_error: str
    last_error_at: Moment | None


class PluginsAnswer(Answer):
    items: list[PluginAnswer]


class InstanceAnswer(Answer):
    id: str
    host: str
    version: str
    started_at: Moment
    seen_at: Moment
    state: str | None = Field(
        description="serving, draining, drained or stopped, as it last reported; null: its version cannot say."
    )
    detail: Document


class InstancesAnswer(Answer):
    items: list[InstanceAnswer]


class DrainAnswer(Answer):
    """How far this instance is with handing over its work."""

    instance: str
    state: str = Field(description="serving, draining, or drained: then it can be stopped.")
    since: Moment | None
    by: str = Field(description="Who asked for it.")
    operations: int = Field(description="Operations whose lease it holds.")
    evaluations: int = Field(description="Evaluations that are under way.")
    messages: int = Field(description="Messages about alerts that are on their way.")


@router.get("/version")
def show_version(context: Context) -> VersionAnswer:
    return VersionAnswer.model_validate(context.about)


@router.get("/openapi.json", include_in_schema=False)
def describe_api(request: Request, _caller: Caller) -> Response:
    """What the API has, for programs."""
    return JSONResponse(request.app.openapi())


@router.get("/plugins")
def list_plugins(context: Context, _caller: Caller) -> PluginsAnswer:
    """Every plugin that was found: its strategies, and its state in this instance."""
    return PluginsAnswer.model_validate({"items": context.plugins()})


@router.get("/instances")
def list_instances(context: Context, _caller: Caller) -> InstancesAnswer:
    """The service processes that share this database."""
    return InstancesAnswer.model_validate({"items": context.instances.list()})


@router.get("/drain")
def show_drain(context: Context, _caller: Caller) -> DrainAnswer:
    """Whether this instance takes on work, and what it holds."""
    return DrainAnswer.model_validate(context.requests.drain_service.report())


@router.post("/drain")
def begin_drain(context: Context, caller: Caller, request: DrainRequest | None = None) -> DrainAnswer:
    """This instance claims nothing new and hands over its work; requests are still answered."""
    return DrainAnswer.model_validate(context.requests.begin_drain(caller, (request or DrainRequest()).span))


@router.delete("/drain")
def end_drain(context: Context, caller: Caller) -> DrainAnswer:
    """This instance takes on work again."""
    return DrainAnswer.model_validate(context.requests.end_drain(caller))
