# SPDX-License-Identifier: Apache-2.0
"""The catalogs of the settings, and their sync."""

from fastapi import APIRouter
from starlette.responses import Response

from lakehand.web.access import Somebody
from lakehand.web.forms import Form

router = APIRouter()


@router.get("/catalogs")
def list_catalogs(view: Somebody) -> Response:
    service = view.context.catalogs
    known = [(served, service.last.get(name)) for name, served in sorted(service.catalogs.items())]
    return view.page("catalogs.html", section="/catalogs", catalogs=known)


@router.post("/catalogs/{name}/sync")
def sync_catalog(name: str, form: Form, view: Somebody) -> Response:
    """The page shows the report as that of the last sync."""
    view.context.requests.sync_catalog(view.caller, name, dry_run=form.flag("dry_run"))
    return view.go_to("/catalogs")
