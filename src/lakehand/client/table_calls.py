# SPDX-License-Identifier: Apache-2.0
"""Calls about tables. A table is named by its id, name, db.name, catalog:db.name or location."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from lakehand.api.fields import PageAnswer
from lakehand.api.tables import (
    HealthAnswer,
    HistoryAnswer,
    OperationEndAnswer,
    RemovedTable,
    SettingAnswer,
    SettingsAnswer,
    TableAnswer,
    TableName,
)
from lakehand.client import Document, Parameters, absolute_location, given
from lakehand.client.answers import Explanation, read
from lakehand.client.errors import NotFound, RequestFailed
from lakehand.client.steps import ItemSteps, Request, Steps, get, post, send, send_for_outcome, send_for_pages
from lakehand.domain.texts import read_id

# The client's names of what the API's schemas call otherwise.
HealthHistory = HistoryAnswer
HealthPoint = HealthAnswer
OperationEnd = OperationEndAnswer
Setting = SettingAnswer
Table = TableAnswer
TableRef: TypeAlias = int | str | TableName  # its id; a text as tables.get takes it; or a table of an earlier answer
TABLES = "/api/v1/tables"
TABLE = f"{TABLES}/{{id}}"
MOST_NAMED = 10  # tables of one name that an error lists


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedTable(Table):
    is_new: bool  # False: it was registered already, maybe by an earlier attempt of the same call


def list_tables(
    *,
    limit: int | None = None,
    location: str | None = None,
    owner: str | None = None,
    queue: str | None = None,
    paused: bool | None = None,
    removed: bool | None = None,
    db_name: str | None = None,
    table_name: str | None = None,
    format: str | None = None,
    catalog: str | None = None,
    state: str | None = None,
    search: str | None = None,
) -> ItemSteps[Table]:
    """Registered tables that match every given filter; ``limit``: at most this many."""
    filters = {"location": location, "owner": owner, "queue": queue, "paused": paused, "removed": removed}
    filters |= {"db_name": db_name, "table_name": table_name, "format": format, "catalog": catalog}
    filters |= {"state": state, "search": search}
    return send_for_pages(TABLES, PageAnswer[Table], filters, limit)


def get_table(table: TableRef) -> Steps[Table]:
    """One table by its id, name, db.name, catalog:db.name or location; raises NotFound."""
    if not isinstance(table, str):
        return (yield from send(get(TABLE, Table, id=id_in(table))))
    number = read_id(table)
    if number is not None:
        return (yield from send(get(TABLE, Table, id=number)))
    if "/" in table:
        return one_of((yield from named({"location": absolute_location(table)})), table)
    if ":" in table:
        return (yield from send(get(f"{TABLES}/find", Table, {"name": table})))
    db_name, dot, table_name = table.rpartition(".")
    found = (yield from named({"db_name": db_name, "table_name": table_name})) if dot else []
    return one_of(found or (yield from named({"table_name": table})), table)


def named(filters: Parameters) -> Steps[list[Table]]:
    page = yield from send(get(TABLES, PageAnswer[Table], {**filters, "limit": MOST_NAMED}))
    return page.items


def one_of(found: list[Table], text: str) -> Table:
    if not found:
        raise NotFound(f"no table is registered as {text}: see lakehand tables list, or lakehand tables add LOCATION")
    if len(found) > 1:
        ids = ", ".join(str(table.id) for table in found)
        raise RequestFailed(f"{len(found)} tables are called {text}: name it by its id ({ids}) or location")
    return found[0]


def id_in(table: int | TableName) -> int:
    return table if isinstance(table, int) else table.id


def table_id(table: TableRef) -> Steps[int]:
    """The id, looked up only if it is not given."""
    if not isinstance(table, str):
        return id_in(table)
    number = read_id(table)
    return number if number is not None else (yield from get_table(table)).id


def add_table(
    location: str,
    *,
    format: str | None = None,
    db_name: str | None = None,
    table_name: str | None = None,
    owner: str | None = None,
    queue: str | None = None,
    priority: int | None = None,
    action_types: Sequence[str] | None = None,
    scheduling: str | None = None,
    heartbeat_timeout: float | None = None,
    catalog: str | None = None,
    properties: Mapping[str, str] | None = None,
) -> Steps[AddedTable]:
    """Register a table. If it is registered already, nothing changes."""
    body: Document = {
        "location": location,
        "format": format,
        "db_name": db_name,
        "table_name": table_name,
        "owner": owner,
    }
    body |= {"queue": queue, "priority": priority, "action_types": action_types, "scheduling": scheduling}
    body |= {"heartbeat_timeout": heartbeat_timeout, "catalog": catalog, "properties": properties}
    outcome = yield from send_for_outcome(post(TABLES, Table, body, is_repeatable=True))
    return read(AddedTable, outcome.document(), is_new=outcome.is_new)


def change_table(
    table: TableRef,
    *,
    owner: str | None = None,
    queue: str | None = None,
    priority: int | None = None,
    action_types: Sequence[str] | None = None,
    scheduling: str | None = None,
    heartbeat_timeout: float | None = None,
    properties: Mapping[str, str] | None = None,
    paused: bool | None = None,
) -> Steps[Table]:
    """Change what is given. ``action_types``: all, or changes such as +clean; ``properties`` replaces all of them."""
    body: Document = {"owner": owner, "queue": queue, "priority": priority, "action_types": action_types}
    body |= {"scheduling": scheduling, "heartbeat_timeout": heartbeat_timeout, "properties": properties}
    values = {"id": (yield from table_id(table))}
    request = Request(method="PATCH", route=TABLE, answer=Table, values=values, body=given(body | {"paused": paused}))
    return (yield from send(request))


def pause_table(table: TableRef) -> Steps[Table]:
    """Start no more operations of the table; running ones continue."""
    return (yield from send(post(f"{TABLE}/pause", Table, id=(yield from table_id(table)))))


def resume_table(table: TableRef) -> Steps[Table]:
    """Resume a paused table."""
    return (yield from send(post(f"{TABLE}/resume", Table, id=(yield from table_id(table)))))


def remove_table(table: TableRef) -> Steps[RemovedTable]:
    """Remove the table from the service. Its data is not touched, and its history is kept."""
    values = {"id": (yield from table_id(table))}
    return (yield from send(Request(method="DELETE", route=TABLE, answer=RemovedTable, values=values)))


def evaluate_table(table: TableRef) -> Steps[Table]:
    """Evaluate the table now, changed or not."""
    return (yield from send(post(f"{TABLE}/evaluate", Table, is_repeatable=True, id=(yield from table_id(table)))))


def explain_table(table: TableRef) -> Steps[Explanation]:
    """Why something runs or not, and when the table is evaluated next."""
    return (yield from send(get(f"{TABLE}/explain", Explanation, id=(yield from table_id(table)))))


def show_health(table: TableRef, *, since: datetime | str | None = None) -> Steps[HealthHistory]:
    """Its health over time, and the operations that ended meanwhile; ``since``: nothing older."""
    start = since.isoformat() if isinstance(since, datetime) else since
    return (yield from send(get(f"{TABLE}/health", HealthHistory, {"since": start}, id=(yield from table_id(table)))))


def show_settings(table: TableRef) -> Steps[list[Setting]]:
    """The settings of its format that count for this table, and where each value comes from."""
    answer = yield from send(get(f"{TABLE}/settings", SettingsAnswer, id=(yield from table_id(table))))
    return answer.items
