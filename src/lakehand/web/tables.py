# SPDX-License-Identifier: Apache-2.0
"""The list of tables, and the page of one table."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, Field
from starlette.responses import Response

from lakehand.api.operations import OperationRequest
from lakehand.api.tables import ChangedTable
from lakehand.core.ports import TableFilter
from lakehand.core.services.services import Services
from lakehand.domain.actions import Action
from lakehand.domain.errors import Invalid, LakehandError
from lakehand.domain.fleet import TableSort, TableState
from lakehand.domain.processes import Json
from lakehand.domain.tables import Table, TableId
from lakehand.domain.texts import LARGEST_ID
from lakehand.spi import health
from lakehand.spi.pauses import DRY_RUN
from lakehand.web.access import PageRequest, Somebody
from lakehand.web.charts import files_chart, sizes_chart
from lakehand.web.forms import Form, FormFields
from lakehand.web.rendering import status_of
from lakehand.web.texts import amount, number

router = APIRouter()
PAGE = 50
RECENT = 20
FARTHEST = 1_000_000
PathId = Annotated[int, Path(ge=1, le=LARGEST_ID)]
# What the numbers of a table are called, and how they are written.
NUMBERS = {
    health.FILES: ("files", number),
    health.BYTES: ("data", amount),
    health.SMALL_FILES: ("small files", number),
    health.SMALL_BYTES: ("data in small files", amount),
    health.DELETE_FILES: ("delete files", number),
    health.DELETION_VECTORS: ("deletion vectors", number),
    health.LOG_FILES: ("log files", number),
    health.SNAPSHOTS: ("snapshots", number),
    health.PENDING_PLANS: ("pending plans", number),
    health.ROWS: ("rows", number),
}


class TablesQuery(BaseModel):
    """The filters of the list, from its address."""

    search: str = Field(default="", max_length=250)
    state: str = Field(default="", max_length=20)
    format: str = Field(default="", max_length=250)
    catalog: str = Field(default="", max_length=250)
    owner: str = Field(default="", max_length=250)
    queue: str = Field(default="", max_length=250)
    sort: TableSort = TableSort.STATE
    first: int = Field(default=0, ge=0, le=FARTHEST)

    def filter(self) -> TableFilter:
        known = self.state in {str(state) for state in TableState}
        return TableFilter(
            search=self.search or None, format=self.format or None, catalog=self.catalog or None,
            owner=self.owner or None, queue=self.queue or None, state=TableState(self.state) if known else None,
        )  # fmt: skip

    def at(self, first: int) -> str:
        """The address of another page of the same list."""
        given = {key: str(value) for key, value in self.model_dump().items() if value and key != "first"}
        return urlencode({**given, "first": str(first)})


@router.get("/tables")
def list_tables(view: Somebody, query: Annotated[TablesQuery, Query()]) -> Response:
    wanted, services = query.filter(), view.services
    descending = query.sort in (TableSort.FILES, TableSort.SMALL_FILES, TableSort.BYTES, TableSort.UPDATED)
    page = services.fleet.tables(wanted, sort=query.sort, descending=descending, limit=PAGE, offset=query.first)
    after = query.first + PAGE
    return view.page("tables.html", section="/tables", watch="fleet",
        wanted=query, search=query.search, page=page, first=query.first,
        choices=services.fleet.choices(),
        all_states=list(TableState),
        sorts=list(TableSort),
        is_filtered=wanted != TableFilter(),
        before=query.at(max(query.first - PAGE, 0)) if query.first else None,
        after=query.at(after) if after < page.total else None,
    )  # fmt: skip


@router.get("/tables/{id}")
def show_table(id: PathId, view: Somebody) -> Response:
    return table_page(view, view.services.tables.get(TableId(id)))


def table_page(view: PageRequest, table: Table, **more: Any) -> Response:
    services = view.services
    explanation = services.explainer.explain(table.id)
    history = services.health.history(table.id)
    rows = services.fleet.tables(TableFilter(location=table.location), limit=1).items
    newest = history.points[-1].numbers if history.points else {}
    return view.page("table.html", **more, section="/tables", watch=f"table:{table.id}",
        table=table,
        state=rows[0].state if rows else TableState.NEW,
        now_text=explanation.summary,
        explanation=explanation,
        dry_runs=dry_runs(services, table),
        engines=engines_of(services),
        files_chart=files_chart(history),
        sizes_chart=sizes_chart(history),
        numbers=list(shown_numbers(newest)),
        operations=[(operation, table) for operation in services.operations.of_table(table.id, recent=RECENT)],
        settings=services.settings_of(table),
    )  # fmt: skip


@router.get("/tables/{id}/run/{action}")
def prepare_run(id: PathId, action: str, view: Somebody) -> Response:
    """Choose how it runs. For an action that deletes: see first what it would delete."""
    services = view.services
    table = services.tables.get(TableId(id))
    services.operations.check_possible(table, OperationRequest(action=action))
    earlier = (o for o in services.operations.of_table(table.id, recent=RECENT) if is_dry_run(o.process, action))
    return view.page("run.html", section="/tables", watch=f"table:{table.id}",
        table=table, action=action, dry_run=next(earlier, None), engines=engines_of(services),
        has_dry_run=services.operations.has_dry_run(table, Action(action)),
    )  # fmt: skip


def is_dry_run(process: Any, action: str) -> bool:
    return process.action == action and bool(process.parameters.get(DRY_RUN))


def dry_runs(services: Services, table: Table) -> frozenset[str]:
    """The actions of the table that can list beforehand what they would delete."""
    pairs = (pair for plugin in services.plugins() for pair in plugin.strategies if pair.is_used and pair.dry_run)
    return frozenset(pair.action for pair in pairs if pair.format == table.format)


def engines_of(services: Services) -> Sequence[str]:
    """Those that are on, if there is a choice."""
    on = sorted(plugin.name for plugin in services.plugins() if plugin.kind == "engine" and plugin.state == "on")
    return on if len(on) > 1 else []


def shown_numbers(numbers: Mapping[str, Json]) -> Iterator[tuple[str, str]]:
    for key, (name, write) in NUMBERS.items():
        value = numbers.get(key)
        if isinstance(value, int):
            yield name, write(value)


def do(view: PageRequest, id: int, change: Callable[[TableId], str]) -> Response:
    """Make the change and go to its page; if it is refused, show the table with the reason."""
    table = view.services.tables.get(TableId(id))
    try:
        return view.go_to(change(table.id))
    except LakehandError as error:
        return table_page(view, table, status=status_of(error), error=str(error), address=f"/tables/{id}")


@router.post("/tables/{id}/run")
def run_action(id: PathId, form: Form, view: Somebody) -> Response:
    def run(number: TableId) -> str:
        wanted = form.read(OperationRequest, table=number)
        return f"/operations/{view.services.operations.submit(view.caller, wanted)[0].id}"

    return do(view, id, run)


@router.post("/tables/{id}/pause")
def pause(id: PathId, view: Somebody) -> Response:
    return do(view, id, lambda number: address_of(view.services.tables.pause(view.caller, number)))


@router.post("/tables/{id}/resume")
def resume(id: PathId, view: Somebody) -> Response:
    return do(view, id, lambda number: address_of(view.services.tables.resume(view.caller, number)))


@router.post("/tables/{id}/evaluate")
def evaluate(id: PathId, view: Somebody) -> Response:
    return do(view, id, lambda number: address_of(view.services.tables.evaluate(view.caller, number)))


@router.post("/tables/{id}/change")
def change(id: PathId, form: Form, view: Somebody) -> Response:
    table = view.services.tables.get(TableId(id))

    def save(number: TableId) -> str:
        return address_of(view.services.tables.change(view.caller, number, wanted_changes(form, table)))

    return do(view, id, save)


def address_of(table: Table) -> str:
    return f"/tables/{table.id}"


def wanted_changes(form: FormFields, table: Table) -> ChangedTable:
    """Only what differs: the form sends everything."""
    owner, queue = form.text("owner"), form.text("queue")
    if not owner or not queue:
        raise Invalid("a table has an owner and a queue: name both")
    actions = sorted({Action(name) for name in form.all("action_types")})
    if not actions:
        raise Invalid("choose at least one action; to stop all of them, pause the table")
    given: dict[str, Any] = {
        "owner": owner, "queue": queue, "priority": form.number("priority"), "action_types": actions,
    }  # fmt: skip
    spec = table.spec
    present = {
        "owner": spec.owner, "queue": spec.queue, "priority": spec.priority, "action_types": sorted(spec.action_types),
    }  # fmt: skip
    return ChangedTable(**{name: value for name, value in given.items() if value != present[name]})
