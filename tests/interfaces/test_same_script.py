# SPDX-License-Identifier: Apache-2.0
"""One script of requests through every interface: the same rows, the same events, the same audit entries."""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakehand.core.ports import AuditFilter, OperationFilter, TableFilter
from lakehand.domain.access import Role
from lakehand.store import SqlStore, open_store
from tests.interfaces.actors import Actor, ByClient, ByCommand, ByDashboard, ByRest, ByRpc
from tests.rest.parts import ROOT, Listed, context_over, made_token, open_alert, serving
from tests.rpc.parts import rpc_context, rpc_serving
from tests.web.conftest import FoundTables, pages_over

INTERFACES: dict[str, tuple[Any, str]] = {
    "rest": (ByRest, "rest"),
    "command": (ByCommand, "rest"),
    "client": (ByClient, "rest"),
    "grpc": (ByRpc, "grpc"),
    "dashboard": (ByDashboard, "dashboard"),
}


def script(actor: Actor, *, alert: int) -> None:
    """What works, what is repeated, what is refused. Ids are those of an empty database."""
    actor.add_table("/data/trips")
    actor.add_table("/data/trips")
    actor.add_table("/elsewhere/trips")
    actor.change(1, 7, ["clean", "compaction"])
    actor.pause(1)
    actor.resume(1)
    actor.evaluate(1)
    actor.submit(1, "compaction")
    actor.submit(1, "clean", dry_run=True)
    actor.submit(1, "clean", verify_rows=True)
    actor.submit(1, "compaction", dry_run=True)  # it has none
    actor.cancel(1)
    actor.retry(1)
    actor.retry(1)  # it waits again
    actor.silence(alert, 4)
    actor.sync("lake")


@contextmanager
def service(template: Path, home: Path) -> Iterator[tuple[SqlStore, dict[str, str], dict[str, str]]]:
    """A service on an empty database: its addresses by protocol, and a token for each role."""
    home.mkdir()
    store = open_store(f"sqlite:///{shutil.copyfile(template, home / 'lakehand.db')}")
    api = context_over(store, listed=Listed(["orders"]))
    pages = replace(pages_over(api, store), discovery=FoundTables())
    tokens = {str(role): made_token(api, str(role), role).secret for role in Role}
    with serving(api, pages=pages) as client, rpc_serving(rpc_context(api)) as rpc:
        yield store, {"http": str(client.base_url).rstrip("/"), "grpc": rpc.server.address}, tokens
        pages.live.feed.close(timeout=10)
    store.close()


def run(template: Path, home: Path, interface: str, role: str = "operator") -> dict[str, Any]:
    make, via = INTERFACES[interface]
    with service(template, home) as (store, addresses, tokens):
        actor = make(addresses["grpc" if interface == "grpc" else "http"], tokens[role])
        script(actor, alert=open_alert(store))
        actor.close()
        return seen(store, via)


def seen(store: SqlStore, via: str) -> dict[str, Any]:
    """Everything that the script changed, without times and without the interface's own name."""
    tables = store.tables.list(TableFilter(), limit=100, cursor=None).items
    operations = store.operations.list(OperationFilter(), limit=100, cursor=None).items
    entries = [e for e in store.audit.list(AuditFilter(), limit=100, cursor=None).items if e.request.caller != ROOT]
    asked = [one for one in reversed(entries) if not one.request.action.startswith("session.")]
    assert {one.request.caller.via for one in asked} == {via}
    assert {one.request.caller.address for one in asked} == {"127.0.0.1"}
    events = reversed(store.events.list(limit=200).items)
    return {
        "tables": [(one.id, one.spec, one.paused) for one in tables],
        "operations": [
            (o.id, o.table, o.process.action, dict(o.process.parameters), o.status, o.origin, o.cancel_requested,
             o.priority)
            for o in operations
        ],
        "events": [(e.event.kind, timeless(e.event.message), e.event.table, e.event.operation, e.times)
                   for e in events if not e.event.kind.startswith("token.")],
        "audit": [
            (a.request.caller.name, a.request.caller.role, a.request.action, a.request.subject, a.request.table,
             a.request.operation, dict(a.request.detail), dict(a.request.before), answer_of(a))
            for a in asked
        ],
    }  # fmt: skip


def answer_of(entry: Any) -> Any:
    assert entry.answer is not None
    after = {key: timeless(str(value)) for key, value in entry.answer.after.items()}
    return entry.answer.code, timeless(entry.answer.message), after


def timeless(text: str) -> str:
    return re.sub(r"\d{4}-\d\d-\d\d[T ][\d:.]+", "TIME", text)


@pytest.fixture(scope="module")
def by_rest(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return run(sqlite_template, tmp_path_factory.mktemp("rest") / "home", "rest")


def test_the_script_does_what_it_says(by_rest: dict[str, Any]) -> None:
    """So that the others are not compared with nothing."""
    answers = [(entry[2], entry[-1][0]) for entry in by_rest["audit"]]
    assert answers == [
        ("table.add", "ok"), ("table.add", "ok"), ("table.add", "location-refused"), ("table.change", "ok"),
        ("table.pause", "ok"), ("table.resume", "ok"), ("table.evaluate", "ok"), ("operation.submit", "ok"),
        ("operation.submit", "ok"), ("operation.submit", "ok"), ("operation.submit", "invalid"),
        ("operation.cancel", "ok"), ("operation.retry", "ok"), ("operation.retry", "illegal-step"),
        ("alert.silence", "ok"), ("catalog.sync", "ok"),
    ]  # fmt: skip
    assert [one[4] for one in by_rest["operations"]] == ["pending", "pending", "pending"]
    assert [one[1].priority for one in by_rest["tables"]] == [7, 0]


@pytest.mark.parametrize("interface", [name for name in INTERFACES if name != "rest"])
def test_every_interface_leaves_the_same_rows_and_audit_entries(
    sqlite_template: Path, tmp_path: Path, by_rest: dict[str, Any], interface: str
) -> None:
    found = run(sqlite_template, tmp_path / "home", interface)

    for kind, rows in by_rest.items():
        assert found[kind] == rows, kind


@pytest.mark.parametrize("interface", list(INTERFACES))
def test_a_viewer_changes_nothing_through_any_interface(sqlite_template: Path, tmp_path: Path, interface: str) -> None:
    found = run(sqlite_template, tmp_path / "home", interface, role="viewer")

    assert (found["tables"], found["operations"]) == ([], [])
    assert {entry[-1][0] for entry in found["audit"]} == {"forbidden"}
    assert len(found["audit"]) == 5  # there is no table to pause, and no operation to cancel
