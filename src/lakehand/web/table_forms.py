# SPDX-License-Identifier: Apache-2.0
"""What the page of a table can do: run an action, pause, resume, evaluate, change. A refusal is shown on the page."""

from collections.abc import Callable

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from lakehand.domain.actions import Action
from lakehand.domain.errors import Invalid, LakehandError
from lakehand.domain.tables import TableChanges, TableId
from lakehand.web.access import Caller, Context, Pages
from lakehand.web.errors import status_of
from lakehand.web.context import PageContext
from lakehand.web.forms import Form, FormFields
from lakehand.web.rendering import HEADERS, Renderer
from lakehand.web.tables import PathId, table_page

router = APIRouter()


def go_to(path: str) -> Response:
    return RedirectResponse(path, 303, headers=HEADERS)


def do(
    request: Request, pages: Renderer, context: PageContext, id: int, change: Callable[[TableId], str]
) -> Response:
    """Make the change and show its page; if it is refused, show the table with the reason."""
    table = context.tables.get(TableId(id))
    try:
        return go_to(change(table.id))
    except LakehandError as error:
        return table_page(request, pages, context, table, status=status_of(error), error=str(error))


@router.post("/tables/{id}/run")
def run_action(
    id: PathId, form: Form, request: Request, pages: Pages, context: Context, caller: Caller
) -> Response:
    def run(number: TableId) -> str:
        operation, _ = context.operations.submit(
            context.tables.get(number), Action(form.text("action")), None, {}, origin=caller,
            dry_run=form.flag("dry_run"), confirm=form.flag("confirm"),
        )  # fmt: skip
        return f"/operations/{operation.id}"

    return do(request, pages, context, id, run)


@router.post("/tables/{id}/pause")
def pause(id: PathId, request: Request, pages: Pages, context: Context, caller: Caller) -> Response:
    return change_table(id, TableChanges(paused=True), request, pages, context, caller)


@router.post("/tables/{id}/resume")
def resume(id: PathId, request: Request, pages: Pages, context: Context, caller: Caller) -> Response:
    return change_table(id, TableChanges(paused=False), request, pages, context, caller)


@router.post("/tables/{id}/evaluate")
def evaluate(id: PathId, request: Request, pages: Pages, context: Context, caller: Caller) -> Response:
    def ask(number: TableId) -> str:
        return f"/tables/{context.tables.evaluate_now(number, by=caller).id}"

    return do(request, pages, context, id, ask)


@router.post("/tables/{id}/change")
def change(id: PathId, form: Form, request: Request, pages: Pages, context: Context, caller: Caller) -> Response:
    def save(number: TableId) -> str:
        return f"/tables/{context.tables.change(number, wanted_changes(form), by=caller).id}"

    return do(request, pages, context, id, save)


def wanted_changes(form: FormFields) -> TableChanges:
    owner, queue = form.text("owner"), form.text("queue")
    if not owner or not queue:
        raise Invalid("a table has an owner and a queue: name both")
    actions = frozenset(Action(name) for name in form.all("action_types"))
    if not actions:
        raise Invalid("choose at least one action; to stop all of them, pause the table")
    return TableChanges(owner=owner, queue=queue, priority=form.number("priority"), action_types=actions)


def change_table(
    id: int, changes: TableChanges, request: Request, pages: Renderer, context: PageContext, caller: str
) -> Response:
    def save(number: TableId) -> str:
        return f"/tables/{context.tables.change(number, changes, by=caller).id}"

    return do(request, pages, context, id, save)
