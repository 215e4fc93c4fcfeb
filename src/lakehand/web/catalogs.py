# SPDX-License-Identifier: Apache-2.0
"""The catalogs of the settings, and their sync."""

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from lakehand.web.access import Caller, Context, Pages
from lakehand.web.forms import Form
from lakehand.web.rendering import HEADERS

router = APIRouter()


@router.get("/catalogs")
def list_catalogs(request: Request, pages: Pages, context: Context, _caller: Caller) -> Response:
    service = context.catalogs
    known = [(served, service.last.get(name)) for name, served in sorted(service.catalogs.items())]
    return pages.page(request, "catalogs.html", section="/catalogs", catalogs=known)


@router.post("/catalogs/{name}/sync")
def sync_catalog(name: str, form: Form, context: Context, caller: Caller) -> Response:
    """The page shows the report as that of the last sync."""
    context.catalogs.sync(name, dry_run=form.flag("dry_run"), by=caller)
    return RedirectResponse("/catalogs", 303, headers=HEADERS)
