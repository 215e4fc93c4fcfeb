# SPDX-License-Identifier: Apache-2.0
"""What the page of a table can do: run an action, pause, resume, evaluate, change. A refusal is shown on the page."""

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from lakehand.domain.actions import Action
from lakehand.domain.errors import Invalid, LakehandError
from lakehand.domain.row_checks import RowMode
from lakehand.domain.tables import Table, TableChanges, TableId
from lakehand.web.access import PageRequest, Somebody
from lakehand.web.errors import status_of
from lakehand.web.forms import Form, FormFields
from lakehand.web.tables import PathId, table_page

router = APIRouter()


def do(view: PageRequest, id: int, change: Callable[[TableId], str]) -> Response:
    """Make the change and go to its page; if it is refused, show the table with the reason."""
    table = view.context.tables.get(TableId(id))
    try:
        return view.go_to(change(table.id))
    except LakehandError as error:
        return table_page(view, table, status=status_of(error), error=str(error), address=f"/tables/{id}")


@router.post("/tables/{id}/run")
def run_action(id: PathId, form: Form, view: Somebody) -> Response:
    def run(number: TableId) -> str:
        table = view.context.tables.get(number)
        operation, _ = view.context.requests.operations.submit(
            view.caller, table, Action(form.text("action")), dry_run=form.flag("dry_run"), confirm=form.flag("confirm"),
            verify_rows=RowMode.CHECKSUM if form.flag("verify_rows") else RowMode.OFF,
        )  # fmt: skip
        return f"/operations/{operation.id}"

    return do(view, id, run)


@router.post("/tables/{id}/pause")
def pause(id: PathId, view: Somebody) -> Response:
    return do(view, id, lambda number: save(view, number, TableChanges(paused=True)))


@router.post("/tables/{id}/resume")
def resume(id: PathId, view: Somebody) -> Response:
    return do(view, id, lambda number: save(view, number, TableChanges(paused=False)))


@router.post("/tables/{id}/evaluate")
def evaluate(id: PathId, view: Somebody) -> Response:
    return do(view, id, lambda number: f"/tables/{view.context.requests.tables.evaluate(view.caller, number).id}")


@router.post("/tables/{id}/change")
def change(id: PathId, form: Form, view: Somebody) -> Response:
    table = view.context.tables.get(TableId(id))
    return do(view, id, lambda number: save(view, number, wanted_changes(form, table)))


def save(view: PageRequest, number: TableId, changes: TableChanges) -> str:
    return f"/tables/{view.context.requests.tables.change(view.caller, number, changes).id}"


def wanted_changes(form: FormFields, table: Table) -> TableChanges:
    """Only what differs: the form sends everything."""
    owner, queue = form.text("owner"), form.text("queue")
    if not owner or not queue:
        raise Invalid("a table has an owner and a queue: name both")
    actions = frozenset(Action(name) for name in form.all("action_types"))
    if not actions:
        raise Invalid("choose at least one action; to stop all of them, pause the table")
    given: dict[str, Any] = {
        "owner": owner, "queue": queue, "priority": form.number("priority"), "action_types": actions,
    }  # fmt: skip
    return TableChanges(**{name: value for name, value in given.items() if value != getattr(table.spec, name)})
