# SPDX-License-Identifier: Apache-2.0
"""Routes about the service itself: version, plugins, instances, draining."""

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from lakehand.api.fields import answer, seconds
from lakehand.api.service import (
    DrainAnswer,
    DrainRequest,
    InstanceAnswer,
    InstancesAnswer,
    PairAnswer,
    PluginAnswer,
    PluginsAnswer,
    VersionAnswer,
)
from lakehand.core.ports import PluginReport
from lakehand.rest.dependencies import Caller, Services

router = APIRouter(prefix="/api/v1", tags=["service"])


@router.get("/version")
def show_version(services: Services) -> VersionAnswer:
    return services.about


@router.get("/openapi.json", include_in_schema=False)
def describe_api(request: Request, _caller: Caller) -> Response:
    """What the API has, for programs."""
    return JSONResponse(request.app.openapi())


@router.get("/plugins")
def list_plugins(services: Services, _caller: Caller) -> PluginsAnswer:
    """Every plugin that was found: its strategies, and its state in this instance."""
    return PluginsAnswer(items=[plugin_answer(one) for one in services.plugins()])


def plugin_answer(report: PluginReport) -> PluginAnswer:
    strategies = [answer(PairAnswer, one, interval_seconds=seconds(one.interval)) for one in report.strategies]
    return answer(PluginAnswer, report, strategies=strategies)


@router.get("/instances")
def list_instances(services: Services, _caller: Caller) -> InstancesAnswer:
    """The service processes that share this database."""
    return InstancesAnswer(items=[answer(InstanceAnswer, one) for one in services.instances.list()])


@router.get("/drain")
def show_drain(services: Services, _caller: Caller) -> DrainAnswer:
    """Whether this instance takes on work, and what it holds."""
    return services.drains.report()


@router.post("/drain")
def begin_drain(services: Services, caller: Caller, request: DrainRequest | None = None) -> DrainAnswer:
    """This instance claims nothing new and hands over its work; requests are still answered."""
    return services.drains.begin(caller, request or DrainRequest())


@router.delete("/drain")
def end_drain(services: Services, caller: Caller) -> DrainAnswer:
    """This instance takes on work again."""
    return services.drains.end(caller)
