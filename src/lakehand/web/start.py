# SPDX-License-Identifier: Apache-2.0
"""The first page of an empty service: look into a folder, a bucket or a catalog, and register what is there."""

from collections.abc import Iterator
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from lakehand.domain.errors import LakehandError
from lakehand.web.access import Caller, Context, Pages
from lakehand.web.context import DiscoveredTable, PageContext
from lakehand.web.forms import Form

router = APIRouter()
MOST_SHOWN = 1000


@router.get("/start")
def look(
    request: Request, pages: Pages, context: Context, _caller: Caller,
    where: Annotated[str, Query(max_length=1024)] = "",
) -> Response:  # fmt: skip
    """Tables appear as they are found: the page is sent while the folders are still being read."""
    where = where.strip()
    values = {"where": where, "warehouses": context.warehouses, "url": str(request.base_url).rstrip("/")}
    values["catalogs"] = sorted(context.catalogs.catalogs)
    if not where:
        return pages.page(request, "start.html", section="/start", **values, discovery=None)
    return pages.stream(request, "start.html", section="/start", **values, discovery=Discovery(context, where))


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
            for found in self.context.discover(self.where):
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
def register(form: Form, request: Request, pages: Pages, context: Context, caller: Caller) -> Response:
    results = [register_one(context, name, caller) for name in form.all("table")[:MOST_SHOWN]]
    return pages.page(request, "registered.html", section="/start", results=results)


def register_one(context: PageContext, name: str, caller: str) -> tuple[str, object, str]:
    """The name, the table, and why it was refused."""
    try:
        table, is_new = context.tables.add(context.new_table(name), by=caller)
    except LakehandError as error:
        return name, None, str(error)
    return name, table, "" if is_new else "it was registered already"
