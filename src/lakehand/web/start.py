# SPDX-License-Identifier: Apache-2.0
"""The first page of an empty service: find the tables of a folder, a bucket or a catalog, and register them."""

from collections.abc import Iterator
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import Response

from lakehand.domain.access import Role
from lakehand.domain.errors import LakehandError
from lakehand.web.access import PageRequest, Somebody
from lakehand.web.context import DiscoveredTable, PageContext
from lakehand.web.forms import Form

router = APIRouter()
MOST_SHOWN = 1000


@router.get("/start")
def find_tables(view: Somebody, where: Annotated[str, Query(max_length=1024)] = "") -> Response:
    """Tables appear as they are found: the page is sent while the folders are still being read."""
    where = where.strip()
    context = view.context
    values: dict[str, Any] = {
        "section": "/start", "caller": view.caller, "where": where, "warehouses": context.warehouses,
        "url": str(view.request.base_url).rstrip("/"), "catalogs": sorted(context.catalogs.catalogs),
    }  # fmt: skip
    if not where:
        return view.renderer.page("start.html", **values, discovery=None)
    view.caller.need(Role.OPERATOR)  # it reads folders
    return view.renderer.stream("start.html", **values, discovery=Discovery(context, where))


class Discovery:
    """Discovered tables, and the problem that ended the search, if there was one."""

    def __init__(self, context: PageContext, where: str) -> None:
        self.context, self.where = context, where
        self.problem = ""
        self.count = 0
        self.is_cut = False

    @property
    def tables(self) -> Iterator[tuple[DiscoveredTable, bool]]:
        """Each with whether it is registered already."""
        try:
            for found in self.context.discovery.discover(self.where):
                if self.count >= MOST_SHOWN:
                    self.is_cut = True
                    return
                if not found.location:
                    self.problem = found.problem
                    continue
                self.count += 1
                yield found, self.context.tables.has(found.location)
        except LakehandError as error:
            self.problem = str(error)


@router.post("/start")
def register(form: Form, view: Somebody) -> Response:
    results = [register_one(view, name) for name in form.all("table")[:MOST_SHOWN]]
    return view.page("registered.html", section="/start", results=results)


def register_one(view: PageRequest, name: str) -> tuple[str, object, str]:
    """The name, the table, and why it was refused."""
    try:
        table, is_new = view.context.tables.add(view.caller, view.context.discovery.new_table(name))
    except LakehandError as error:
        return name, None, str(error)
    return name, table, "" if is_new else "it was registered already"
