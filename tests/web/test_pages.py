# SPDX-License-Identifier: Apache-2.0
"""Each page over a real store: what it shows, what its forms do, and how refusals are shown."""

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

import httpx
import pytest
from sqlalchemy import update

from lakehand.api.operations import OperationRequest
from lakehand.domain.actions import Action
from lakehand.domain.operations import InstanceId, Operation, Status
from lakehand.domain.processes import Json
from lakehand.domain.tables import Format, Table, TableSpec
from lakehand.rest import ApiContext
from lakehand.store import SqlStore
from lakehand.store.schema import schedule
from tests.rest.parts import serving

PAGES = ("/", "/tables", "/operations", "/alerts", "/catalogs", "/events", "/service", "/start", "/sign-in")
WANTED = ("compaction", "clean")
FOREIGN_ADDRESS = re.compile(r"""(?:src|href|action)=["'](?:https?:)?//""")


def add_table(api: ApiContext, location: str = "/data/trips", **values: object) -> Table:
    spec = TableSpec(
        location=location, format=Format("hudi"), action_types=frozenset({Action("compaction"), Action("clean")})
    )
    return api.services.tables.register(replace(spec, **values), by="ann")[0]  # type: ignore[arg-type]


def submit(api: ApiContext, table: Table, action: str = "compaction") -> Operation:
    return api.services.operations.add(table, OperationRequest(action=action), by="ann")[0]


def end(
    store: SqlStore,
    operation: Operation,
    status: Status,
    *,
    result: Mapping[str, Json] | None = None,
    pause: str | None = None,
) -> Operation:
    """As an instance that has run it."""
    now = store.clock.now()
    held = store.operations.claim(operation, holder=InstanceId("here"), time_to_live=timedelta(minutes=1))
    assert held is not None
    started = replace(held.moved_to(Status.SUBMITTED, at=now, reason="given"), run_times=1, started_at=now)
    saved = store.operations.save(started, now=now)
    ended = replace(saved.moved_to(status, at=now, reason=f"it {status}"), result=result or {})
    return store.operations.save(ended, now=now, release=True, pause=pause)


@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_html_that_keeps_to_itself(client: httpx.Client, api: ApiContext, path: str) -> None:
    add_table(api)

    answer = client.get(path)

    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy
    assert answer.headers["x-frame-options"] == "DENY"
    assert not FOREIGN_ADDRESS.search(answer.text)
    assert "<script>" not in answer.text
    assert " style=" not in answer.text
    assert " onclick=" not in answer.text


def test_an_empty_service_leads_to_the_first_page(client: httpx.Client) -> None:
    answer = client.get("/")

    assert (answer.status_code, answer.headers["location"]) == (303, "/start")


def test_the_fleet_counts_tables_and_names_what_needs_a_person(
    client: httpx.Client, api: ApiContext, store: SqlStore
) -> None:
    failed, paused = add_table(api), add_table(api, "/data/paused")
    add_table(api, "/data/other")
    client.post(f"/tables/{paused.id}/pause")
    broken = end(store, submit(api, failed), Status.FAILED)

    text = client.get("/").text

    assert "3 tables" in text
    assert "1 failed" in text
    assert "1 paused" in text
    assert "Needs a person (1)" in text
    assert f'action="/operations/{broken.id}/retry"' in text


def test_the_service_page_shows_which_instances_drain(client: httpx.Client, store: SqlStore) -> None:
    for name, detail in {"older": {}, "newer": {"state": "draining"}}.items():
        store.instances.heartbeat(InstanceId(name), host="h", version="1", detail=detail, now=store.clock.now())

    text = client.get("/service").text

    assert "older" in text
    assert text.count("draining") == 2, "the word, and its colour"


def test_tables_are_searched_filtered_and_sorted(client: httpx.Client, api: ApiContext) -> None:
    add_table(api, "/data/orders", owner="sales")
    add_table(api, "/data/clicks", owner="web")

    searched = client.get("/tables", params={"search": "ORD"}).text
    owned = client.get("/tables", params={"owner": "web", "sort": "name"}).text

    assert (">orders</a>" in searched, ">clicks</a>" in searched) == (True, False)
    assert (">orders</a>" in owned, ">clicks</a>" in owned) == (False, True)
    assert "1 match" in owned


def test_the_page_of_a_table_explains_each_action(client: httpx.Client, api: ApiContext) -> None:
    table = add_table(api)
    operation = submit(api, table)

    text = client.get(f"/tables/{table.id}").text

    assert f"operation {operation.id} waits" in text
    assert "not wanted: lakehand tables change" in text
    assert f'href="/operations/{operation.id}"' in text


def test_an_action_is_run_and_its_operation_is_shown(client: httpx.Client, api: ApiContext) -> None:
    table = add_table(api)

    answer = client.post(f"/tables/{table.id}/run", content="action=compaction")

    assert answer.status_code == 303
    shown = client.get(answer.headers["location"]).text
    assert "compaction of" in shown
    assert "asked for by anonymous" in shown


def test_a_refusal_is_shown_on_the_page_of_the_table(client: httpx.Client, api: ApiContext) -> None:
    table = add_table(api)

    answer = client.post(f"/tables/{table.id}/run", content="action=clustering")

    assert answer.status_code == 409
    assert "is not registered for clustering" in answer.text
    assert 'role="alert"' in answer.text
    assert "Settings in effect" in answer.text


def test_a_table_is_changed_paused_and_resumed_in_the_name_of_the_caller(
    client: httpx.Client, api: ApiContext, store: SqlStore
) -> None:
    table = add_table(api)

    changed = client.post(
        f"/tables/{table.id}/change", content="owner=sales&queue=night&priority=7&action_types=compaction"
    )
    client.post(f"/tables/{table.id}/pause")

    assert changed.status_code == 303
    now = api.services.tables.get(table.id)
    assert (now.spec.owner, now.spec.queue, now.spec.priority, now.paused) == ("sales", "night", 7, True)
    assert now.spec.action_types == {Action("compaction")}
    client.post(f"/tables/{table.id}/resume")
    assert not api.services.tables.get(table.id).paused
    assert {e.event.detail["by"] for e in store.events.list(kind="table.changed").items} == {"anonymous"}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("owner=&queue=q&priority=1&action_types=compaction", "name both"),
        ("owner=o&queue=q&priority=x&action_types=compaction", "use a whole number"),
        ("owner=o&queue=q&priority=1", "choose at least one action"),
        ("owner=o&queue=q&priority=1&action_types=dance", "nobody does that"),
    ],
)
def test_a_change_that_makes_no_sense_changes_nothing(
    client: httpx.Client, api: ApiContext, body: str, said: str
) -> None:
    table = add_table(api)

    answer = client.post(f"/tables/{table.id}/change", content=body)

    assert answer.status_code == 422
    assert said in answer.text
    assert api.services.tables.get(table.id) == table


def test_an_operation_is_canceled_and_retried(client: httpx.Client, api: ApiContext) -> None:
    operation = submit(api, add_table(api))

    client.post(f"/operations/{operation.id}/cancel")
    assert "canceled by anonymous" in client.get(f"/operations/{operation.id}").text
    client.post(f"/operations/{operation.id}/retry")
    again = client.post(f"/operations/{operation.id}/retry")

    assert "retried by anonymous" in client.get(f"/operations/{operation.id}").text
    assert again.status_code == 409
    assert "only a failed, canceled or dropped one can be retried" in again.text


def test_attempts_are_bars_and_numbers_are_shown(client: httpx.Client, api: ApiContext, store: SqlStore) -> None:
    operation = end(store, submit(api, add_table(api)), Status.SUCCEEDED)

    text = client.get(f"/operations/{operation.id}").text

    assert "it succeeded" in text
    assert "● succeeded" in text
    assert "cancel</button>" not in text
    assert "retry</button>" not in text


def test_rows_that_differ_are_shown_with_both_numbers_and_the_reason_of_the_pause(
    client: httpx.Client, api: ApiContext, store: SqlStore
) -> None:
    operation = submit(api, add_table(api))
    numbers: dict[str, Json] = {"before": {"state": "4", "rows": 88, "from": "metadata", "checksum": ""},
               "after": {"state": "5", "rows": 99, "from": "data", "checksum": "ab12"}}  # fmt: skip
    report: dict[str, Json] = {"verified_rows": {"outcome": "unequal", "reason": "not the same", **numbers}}
    end(store, operation, Status.FAILED, result=report, pause="it changed <rows>")

    shown, table = client.get(f"/operations/{operation.id}").text, client.get(f"/tables/{operation.table}").text

    assert "unequal: not the same" in shown
    assert "99 rows at <code>5</code>, from data, checksum <code>ab12</code>" in shown
    assert "88 rows at <code>4</code>, from metadata</dd>" in shown
    assert "Lakehand paused it: it changed &lt;rows&gt;" in table


def test_a_reason_in_the_list_of_tables_has_the_time_of_its_numbers(
    client: httpx.Client, api: ApiContext, store: SqlStore
) -> None:
    table = add_table(api)
    shown = {"last_reason": "3 plans wait", "last_decision": 1_700_000_000_000}
    change = update(schedule).where(schedule.c.tbl_id == table.id).values(shown)
    store.database.write(lambda tx: tx.execute(change).close())

    row = client.get("/tables").text.partition("3 plans wait")[2].partition("</tr>")[0]

    assert 'datetime="2023-11-14T22:13:20' in row


def test_rows_are_compared_if_the_box_is_ticked(client: httpx.Client, api: ApiContext) -> None:
    table = add_table(api)
    refused = client.post(f"/tables/{table.id}/run", content="action=compaction&verify_rows=perhaps")
    assert (refused.status_code, api.services.operations.of_table(table.id)) == (422, [])

    client.post(f"/tables/{table.id}/run", content="action=compaction&verify_rows=checksum")

    [operation] = api.services.operations.of_table(table.id)
    assert operation.process.parameters["verify_rows"] == "checksum"


def test_a_run_is_not_repeated_if_the_box_is_ticked(client: httpx.Client, api: ApiContext) -> None:
    table = add_table(api)

    client.post(f"/tables/{table.id}/run", content="action=compaction&retry_on_error=false")

    [operation] = api.services.operations.of_table(table.id)
    assert operation.retry_on_error is False
    assert "none after an error" in client.get(f"/operations/{operation.id}").text


def test_an_action_that_deletes_is_prepared_by_a_dry_run(client: httpx.Client, api: ApiContext) -> None:
    table = add_table(api)

    text = client.get(f"/tables/{table.id}/run/clean").text
    client.post(f"/tables/{table.id}/run", content="action=clean&dry_run=1")

    assert "See what it would delete" in text
    assert "Last dry run" in client.get(f"/tables/{table.id}/run/clean").text


def test_an_action_that_deletes_nothing_has_a_page_with_all_that_a_request_may_say(
    client: httpx.Client, api: ApiContext
) -> None:
    table = add_table(api)

    path = f"/tables/{table.id}/run/compaction"
    text = client.get(path).text

    assert f'href="{path}"' in client.get(f"/tables/{table.id}").text
    assert "dry run" not in text
    assert 'name="confirm"' not in text
    assert client.get(f"/tables/{table.id}/run/vacuum").status_code == 404


def test_found_tables_are_registered(client: httpx.Client, api: ApiContext) -> None:
    found = client.get("/start", params={"where": "/data/lake"}).text

    answer = client.post("/start", content="table=%2Fdata%2Flake%2Ffound&table=%2Fetc")

    assert "six log files" in found
    assert 'value="/data/lake/found"' in found
    assert "1 of 2 tables are registered" in answer.text
    assert "refused" in answer.text
    assert api.services.tables.has("/data/lake/found")
    assert "registered</span>" in client.get("/start", params={"where": "/data/lake"}).text


def test_text_of_a_strangers_table_is_data(client: httpx.Client, api: ApiContext) -> None:
    name = "<img src=x onerror=alert(1)>\u202egnp"
    table = add_table(api, table_name=name)
    submit(api, table)

    for path in ("/", "/tables", f"/tables/{table.id}", "/operations", "/events"):
        text = client.get(path).text
        assert "<img" not in text
        assert "\u202e" not in text
    assert "&lt;img src=x" in client.get("/tables").text


def test_a_page_that_is_not_there_says_so(client: httpx.Client) -> None:
    for path in ("/tables/999", "/operations/999", "/tables/x", "/static/0/none.js"):
        answer = client.get(path)
        assert answer.status_code in (404, 422), path
        assert "text/html" in answer.headers["content-type"]


def test_the_api_keeps_its_own_errors(client: httpx.Client) -> None:
    assert client.get("/api/v1/nothing").json()["error"]["code"] == "not-found"
    assert client.put("/api/v1/tables", headers={"Content-Type": "application/json"}).status_code == 405


def test_static_files_are_kept_by_browsers(client: httpx.Client) -> None:
    [path] = re.findall(r'href="(/static/[^"]+\.css)"', client.get("/start").text)

    answer = client.get(path)

    assert answer.headers["content-type"].startswith("text/css")
    assert "immutable" in answer.headers["cache-control"]
    chart_library = client.get(path.replace("dashboard.css", "plotly.js"))
    assert len(chart_library.content) > 1_000_000
    assert client.get(path.replace("dashboard.css", "..%2Fapp.py")).status_code == 404


def test_browsers_find_an_icon_where_a_page_names_none(client: httpx.Client) -> None:
    answer = client.get("/favicon.ico")

    assert (answer.status_code, answer.headers["content-type"]) == (200, "image/svg+xml")


def test_the_first_page_is_small(client: httpx.Client, api: ApiContext) -> None:
    add_table(api)
    page = client.get("/")
    own = [path for path in re.findall(r'(?:src|href)="(/static/[^"]+)"', page.text) if "plotly" not in path]
    base = own[0].rpartition("/")[0]
    scripts = [f"{base}/{name}.js" for name in ("charts", "live", "keys", "times")]

    size = len(page.content) + sum(len(client.get(path).content) for path in {*own, *scripts})

    assert size < 300_000


def test_a_dashboard_that_is_off_is_not_there(api: ApiContext) -> None:
    with serving(api) as client:
        assert client.get("/").status_code == 404
