# SPDX-License-Identifier: Apache-2.0
"""Open alerts, and a form that silences one."""

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from lakehand.domain.alerts import AlertId
from lakehand.domain.numbers import LARGEST_ID
from lakehand.web.access import Somebody
from lakehand.web.forms import Form

router = APIRouter()
PAGE = 100
HOURS = (1, 8, 24, 168)  # that the form offers


@router.get("/alerts")
def list_alerts(
    view: Somebody,
    state: Annotated[str, Query(max_length=10)] = "open",
    cursor: Annotated[str | None, Query(max_length=500)] = None,
) -> Response:
    service = view.context.alerts
    page = service.list(only_open=state != "all", limit=PAGE, cursor=cursor)
    return view.page("alerts.html", section="/alerts", watch="" if cursor else "fleet",
        page=page, shows_all=state == "all", hours=HOURS, receivers=sorted(service.receivers),
    )  # fmt: skip


@router.post("/alerts/{id}/silence")
def silence_alert(id: Annotated[int, Path(ge=1, le=LARGEST_ID)], form: Form, view: Somebody) -> Response:
    view.context.requests.silence_alert(view.caller, AlertId(id), timedelta(hours=form.number("hours")))
    return view.go_to("/alerts")
