# SPDX-License-Identifier: Apache-2.0
"""The service itself: whether it is ready, its instances, engines and plugins."""

from fastapi import APIRouter
from starlette.responses import Response

from lakehand.web.access import Somebody

router = APIRouter()


@router.get("/service")
def show_service(view: Somebody) -> Response:
    context = view.context
    return view.page("service.html", section="/service", watch="fleet",
        readiness=sorted(context.readiness().items()), instances=context.instances.list(), plugins=context.plugins(),
        instance=context.instance,
    )  # fmt: skip
