# SPDX-License-Identifier: Apache-2.0
"""Every call against a real service, with both clients."""

from datetime import datetime, timedelta, timezone

import pytest

from lakehand.client import Conflict, Forbidden, Invalid, LakehandClient, NotFound, RequestFailed, Unauthorized
from lakehand.store import SqlStore
from tests.client.conftest import MakeClient
from tests.client.engine import put_health
from tests.rest.parts import INSTANT, LOCATION, context_over, open_alert, serving


def test_a_table_is_added_once_and_read_as_what_it_is(client: LakehandClient) -> None:
    table = client.tables.add(LOCATION, db_name="sales", priority=3, properties={"a": "b"})

    assert table.is_new
    assert (table.id, table.name, table.priority, table.properties) == (1, "sales.trips", 3, {"a": "b"})
    assert table.action_types == ["compaction"]
    assert timedelta(0) <= datetime.now(timezone.utc) - table.created_at < timedelta(minutes=1)
    assert table.raw["created_at"].endswith("Z")
    assert not client.tables.add(LOCATION).is_new


def test_a_table_is_found_by_everything_that_names_it(client: LakehandClient) -> None:
    added = client.tables.add(LOCATION, db_name="sales")

    for name in (1, "1", "trips", "sales.trips", ":sales.trips", LOCATION, added):
        assert client.tables.get(name).id == 1


def test_a_name_that_is_nobodys_or_anybodys_is_refused_with_what_to_do(client: LakehandClient) -> None:
    client.tables.add("/data/a/trips")
    client.tables.add("/data/b/trips")

    with pytest.raises(NotFound, match="no table is registered as cars: see lakehand tables list"):
        client.tables.get("cars")
    with pytest.raises(RequestFailed, match=r"2 tables are called trips: name it by its id \(1, 2\) or location"):
        client.tables.pause("trips")


def test_a_table_is_changed_paused_resumed_and_removed(client: LakehandClient) -> None:
    client.tables.add(LOCATION)

    assert client.tables.change("trips", owner="ann", action_types=["+clean"]).action_types == ["clean", "compaction"]
    assert client.tables.pause("trips").paused
    assert not client.tables.resume(1).paused
    assert client.tables.change("trips", paused=True).paused
    assert client.tables.remove("trips").removed
    assert list(client.tables.list()) == []
    assert [table.owner for table in client.tables.list(removed=True)] == ["ann"]


def test_a_list_goes_over_all_pages_and_stops_where_it_is_told_to(client: LakehandClient) -> None:
    for number in range(7):
        client.tables.add(f"/data/{number}", owner="ann" if number < 5 else "bob")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lakehand.client.steps.PAGE", 2)
        assert sorted(table.id for table in client.tables.list()) == [1, 2, 3, 4, 5, 6, 7]
        assert sorted(table.id for table in client.tables.list(owner="ann")) == [1, 2, 3, 4, 5]
        assert len(list(client.tables.list(limit=3))) == 3
        assert list(client.tables.list(limit=0)) == []


def test_a_page_is_read_when_it_is_needed(client: LakehandClient, store: SqlStore) -> None:
    for number in range(3):
        client.tables.add(f"/data/{number}")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lakehand.client.steps.PAGE", 2)
        tables = client.tables.list()
        first = next(tables)
        client.tables.change(3, owner="changed meanwhile")
        assert [first.owner, *(table.owner for table in tables)] == ["default", "default", "changed meanwhile"]


def test_a_table_explains_itself_and_has_settings_and_health(client: LakehandClient, store: SqlStore) -> None:
    client.tables.add(LOCATION)
    put_health(store, 1, hours_ago=2, files=12)
    put_health(store, 1, hours_ago=1, files=3)

    assert client.tables.evaluate("trips").id == 1
    explained = client.tables.explain("trips")
    assert explained.table.name == "trips"
    assert [one.action for one in explained.actions if one.wanted] == ["compaction"]
    assert {event.kind for event in explained.events} >= {"table.evaluate"}
    assert client.tables.settings("trips") == []
    history = client.tables.health("trips", since=datetime.now(timezone.utc) - timedelta(days=1))
    assert [point.numbers for point in history.points] == [{"files": 12}, {"files": 3}]
    assert history.points[0].at < history.points[1].at
    assert client.tables.get(1).health == history.points[1]


def test_an_operation_is_submitted_once_per_instant_and_its_steps_are_followed(client: LakehandClient) -> None:
    client.tables.add(LOCATION)

    operation = client.operations.submit("trips", "compaction", instant=INSTANT)
    again = client.operations.submit(LOCATION, "compaction", instant=INSTANT)

    assert (operation.is_new, again.is_new) == (True, False)
    assert operation.id == again.id
    assert [one.id for one in client.operations.list(table="trips", status=["pending", "running"])] == [operation.id]
    assert list(client.operations.list(status="failed")) == []
    assert client.operations.cancel(operation).status == "canceled"
    assert client.operations.retry(operation.id).status == "pending"
    assert client.operations.get(operation).attempt_list == []
    assert client.operations.clear("trips").removed == [operation.id]
    assert client.operations.remove(client.operations.submit("trips", "compaction")).is_deleted


def test_events_are_listed_by_what_they_are_about(client: LakehandClient) -> None:
    client.tables.add(LOCATION)
    operation = client.operations.submit("trips", "compaction")
    client.tables.add("/data/other")

    [event] = client.events.list(operation=operation)
    assert (event.table, event.operation, event.times) == (1, operation.id, 1)
    assert {one.table for one in client.events.list(table="other")} == {2}
    assert {one.kind for one in client.events.list(kind="table.")} == {"table.registered"}
    assert len(list(client.events.list(limit=1))) == 1


def test_alerts_are_listed_silenced_and_tested(client: LakehandClient, store: SqlStore) -> None:
    number = open_alert(store)

    [alert] = client.alerts.list()
    assert (alert.id, alert.severity, alert.silenced_until) == (number, "warning", None)
    silenced = client.alerts.silence(alert, timedelta(hours=2)).silenced_until
    assert silenced is not None
    assert silenced > datetime.now(timezone.utc) + timedelta(minutes=100)
    assert [one.id for one in client.alerts.list(state="all")] == [number]
    assert client.alerts.test() == []


def test_catalogs_are_listed_and_synced(client: LakehandClient) -> None:
    [catalog] = client.catalogs.list()
    assert (catalog.name, catalog.properties, catalog.last_sync) == ("lake", ["uri"], None)

    assert client.catalogs.sync("lake", dry_run=True).added == ["db.new"]
    assert client.catalogs.sync("lake").added == ["db.new"]
    last = client.catalogs.list()[0].last_sync
    assert last is not None
    assert last.tables == 1
    assert client.tables.get("lake:db.new").catalog == "lake"


def test_the_service_shows_fleet_plugins_instances_and_version(client: LakehandClient) -> None:
    client.tables.add(LOCATION)

    fleet = client.fleet(hours=2, limit=5)
    assert (fleet.totals.tables, fleet.states["new"], fleet.needs_person.total) == (1, 1, 0)
    assert {plugin.name: plugin.state for plugin in client.plugins()}["odd"] == "broken"
    assert client.instances() == []
    assert (client.version().name, client.version().version) == ("lakehand", "0.1.0")


def test_any_request_can_be_sent_and_is_answered_as_plain_json(client: LakehandClient) -> None:
    client.request("POST", "/api/v1/tables", body={"location": LOCATION})

    assert client.request("GET", "/api/v1/tables", parameters={"owner": "default"})["items"][0]["id"] == 1


def test_a_refusal_is_an_error_of_its_kind_with_the_services_words(client: LakehandClient) -> None:
    with pytest.raises(NotFound) as missing:
        client.operations.get(7)
    with pytest.raises(Invalid) as refused:
        client.tables.add("/elsewhere/trips")
    client.tables.add(LOCATION)
    with pytest.raises(Conflict) as conflict:
        client.operations.submit("trips", "clean")

    assert (missing.value.code, missing.value.status) == ("not-found", 404)
    assert (refused.value.code, refused.value.status) == ("location-refused", 422)
    assert (conflict.value.code, conflict.value.status) == ("conflict", 409)
    assert conflict.value.message.startswith("trips is not registered for clean")


def test_a_token_is_required_sent_and_taken_from_the_environment(
    make_client: MakeClient, store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(context_over(store, tokens={"ann": "a-secret-of-ann"})) as http:
        url = str(http.base_url).rstrip("/")
        with pytest.raises(Unauthorized, match="requires a token: give it with --token or LAKEHAND_TOKEN"):
            make_client(url).fleet()
        assert make_client(url, "a-secret-of-ann").fleet().totals.tables == 0

        monkeypatch.setenv("LAKEHAND_URL", url)
        monkeypatch.setenv("LAKEHAND_TOKEN", "a-secret-of-ann")
        assert make_client().fleet().totals.tables == 0
        with pytest.raises(Unauthorized):  # a token of the environment is for the service of the environment
            make_client(url).fleet()


def test_tokens_are_made_used_revoked_and_audited(make_client: MakeClient, store: SqlStore) -> None:
    with serving(context_over(store, tokens={"ann": "a-secret-of-ann"})) as http:
        admin = make_client(str(http.base_url), "a-secret-of-ann")
        made = admin.tokens.create("bob", "operator", owner="finance", life=timedelta(days=1))
        bob = make_client(str(http.base_url), made.secret)

        assert made.secret not in repr(made)
        assert (bob.caller().name, bob.caller().role, bob.caller().owner) == ("bob", "operator", "finance")
        with pytest.raises(Forbidden) as forbidden:
            bob.tables.add(LOCATION, owner="sales")
        assert (forbidden.value.code, forbidden.value.status) == ("forbidden", 403)
        bob.tables.add(LOCATION, owner="finance")

        assert [(one.answer, one.caller) for one in admin.audit.list(action="table.")] == [
            ("ok", "bob"),
            ("forbidden", "bob"),
        ]
        bob.tables.pause("trips")
        assert [(one.action, one.table) for one in admin.audit.list(table="trips")] == [("table.pause", 1)]
        assert admin.tokens.revoke(made).revoked_at is not None
        assert [token.name for token in admin.tokens.list()] == ["bob"]


def test_what_is_no_address_of_a_service_is_refused(make_client: MakeClient) -> None:
    with pytest.raises(RequestFailed, match="'lake:9091' is not the address of a service"):
        make_client("lake:9091")
