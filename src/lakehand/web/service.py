# SPDX-License-Identifier: Apache-2.0
"""The service itself: whether it is ready, its instances, engines and plugins."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from lakehand.web.access import Caller, Context, Pages

router = APIRouter()


@router.get("/service")
def show_service(request: Request, pages: Pages, context: Context, _caller: Caller) -> Response:
    return pages.page(
        request, "service.html", section="/service", watch="fleet",
        readiness=sorted(context.readiness().items()), instances=context.instances.list(), plugins=context.plugins(),
        instance=context.instance,
    )  # fmt: skip
