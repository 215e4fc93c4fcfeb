# SPDX-License-Identifier: Apache-2.0
"""A table that is asked for too much: so many operations are stored and no more, and what is there stays quick."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier
from typing import Any

import pytest
from sqlalchemy import event as listening
from sqlalchemy import insert, select

from lakehand.api.operations import OperationRequest
from lakehand.core.plugins.registry import Plugins
from lakehand.core.services.audit_trail import AuditTrail
from lakehand.core.services.explain import Explainer
from lakehand.core.services.operations import OperationService
from lakehand.core.services.tables import BATCH, TableService
from lakehand.domain.access import Caller, Role
from lakehand.domain.errors import Conflict
from lakehand.domain.locations import Warehouses
from lakehand.domain.notifications import InboxRow
from lakehand.domain.operations import MOST_UNFINISHED, OperationId, Status
from lakehand.domain.processes import Instant
from lakehand.domain.tables import Table
from lakehand.formats.hudi.notifications import HudiNotifications
from lakehand.store import SqlStore, open_store
from lakehand.store.operation_rows import to_operation
from lakehand.store.schema import operation
from tests.rest.parts import plugins
from tests.store.given import COMPACTION, NOON, a_pending_operation, a_running_operation, a_table, process, spec

OWN = {"operation_id", "instant"}
ANN = Caller(name="ann", role=Role.OPERATOR)


def instants(first: int, count: int) -> list[Instant]:
    return [Instant(f"{20260101000000000 + number}") for number in range(first, first + count)]


def notify(store: SqlStore, asked: Sequence[Instant], table: str = "/w/orders") -> None:
    inbox_row = InboxRow(table=spec(table), instants=asked, process=process())
    store.inbox.store([inbox_row], [], now=NOON)


def stored(store: SqlStore, table: Table) -> list[str]:
    return sorted(o.instant for o in store.operations.of_table(table.id, recent=0))


def notes(store: SqlStore) -> list[Any]:
    return [one.event for one in store.events.list(kind="intake.too-many").items]


def test_of_too_many_plans_the_newest_are_stored_and_one_event_says_so(store: SqlStore) -> None:
    asked = instants(0, 1000)
    notify(store, asked)
    table = a_table(store)
    assert stored(store, table) == asked[-MOST_UNFINISHED:]
    [note] = notes(store)
    assert note.table == table.id
    assert "900 operations that a writer asked for were not stored" in note.message
    assert f"lakehand operations clear {table.id}" in note.message


def test_sixty_requests_of_a_thousand_plans_leave_a_hundred_operations(store: SqlStore) -> None:
    for number in range(60):
        notify(store, instants(number * 1000, 1000))
    table = a_table(store)
    assert sum(store.operations.unfinished(table.id).values()) == MOST_UNFINISHED
    assert [one.times for one in store.events.list(kind="intake.too-many").items] == [60]


def test_a_table_that_is_full_keeps_no_other_table_of_the_same_request(store: SqlStore) -> None:
    full = InboxRow(table=spec("/w/full", table_name="full"), instants=instants(0, 500), process=process())
    other = InboxRow(table=spec("/w/other", table_name="other"), instants=instants(0, 3), process=process())
    store.inbox.store([full, other], [], now=NOON)
    assert len(stored(store, a_table(store, "/w/other"))) == 3


def test_plans_that_are_stored_already_are_not_reported_as_dropped(store: SqlStore) -> None:
    """A writer names its pending plans again and again; this process may not have stored them itself."""
    notify(store, instants(0, MOST_UNFINISHED))
    store.inbox.recent.clear()
    notify(store, instants(0, MOST_UNFINISHED))
    assert notes(store) == []


def test_there_is_room_again_when_operations_have_ended(store: SqlStore) -> None:
    notify(store, instants(0, MOST_UNFINISHED))
    table = a_table(store)
    notify(store, instants(500, 1))
    assert len(notes(store)) == 1
    store.operations.end_waiting(table.id, now=NOON, reason="enough", limit=10)
    notify(store, instants(500, 20))
    assert stored(store, table)[-10:] == instants(510, 10)


def test_instants_of_both_lengths_are_compared_by_time(store: SqlStore) -> None:
    notify(store, [*instants(0, MOST_UNFINISHED), Instant("20260102000000")])
    assert "20260102000000" in stored(store, a_table(store))


def tables_over(store: SqlStore) -> TableService:
    return TableService(
        store=store, audit=AuditTrail(store=store), plugins=plugins(), warehouses=Warehouses(prefixes=("/w",)),
        wake=lambda: None,
    )  # fmt: skip


def service_over(store: SqlStore) -> OperationService:
    return OperationService(
        store=store, plugins=plugins(), tables=tables_over(store), rules=HudiNotifications(),
        audit=AuditTrail(store=store), wake=lambda: None,
    )  # fmt: skip


def test_a_request_for_more_than_may_wait_is_refused_with_the_next_step(store: SqlStore) -> None:
    notify(store, instants(0, MOST_UNFINISHED))
    table, service = a_table(store), service_over(store)
    with pytest.raises(Conflict, match=f"has 100 unfinished operations.*lakehand operations clear {table.id}"):
        service.add(table, OperationRequest(action=COMPACTION, instant="20270101000000000"), by="ann")
    with pytest.raises(Conflict, match="100 unfinished operations"):
        service.add(table, OperationRequest(action=COMPACTION), by="ann")
    again, is_new = service.add(table, OperationRequest(action=COMPACTION, instant=instants(0, 1)[0]), by="ann")
    assert (again.instant, is_new) == (instants(0, 1)[0], False)


def doublings(store: SqlStore) -> int:
    """8192 operations on SQLite, and 4096 where a server is asked: several batches of them, and the counts matter."""
    return 13 if store.operations.database.dialect == "sqlite" else 12


class Cost:
    """What the database was asked for."""

    def __init__(self) -> None:
        self.statements = 0
        self.rows = 0


@contextmanager
def counting(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cost]:
    """Statements as the driver sees them, and operations as they are made from rows."""
    cost, convert = Cost(), to_operation

    def count_row(row: Any) -> Any:
        cost.rows += 1
        return convert(row)

    def count(*_: Any) -> None:
        cost.statements += 1

    monkeypatch.setattr("lakehand.store.operations.to_operation", count_row)
    monkeypatch.setattr("lakehand.store.operation_rows.to_operation", count_row)  # of candidates
    engine = store.operations.database.engine
    listening.listen(engine, "before_cursor_execute", count)
    yield cost
    listening.remove(engine, "before_cursor_execute", count)


@pytest.fixture
def crowded(store: SqlStore) -> Table:
    """As they were stored before there was a cap."""
    table = a_table(store)
    a_pending_operation(store, table, "plan")
    c, others = operation.c, [column for column in operation.c if column.name not in OWN]
    with store.operations.database.engine.begin() as tx:
        for number in range(doublings(store)):
            twins = select(*others, (c.instant + f"-{number}").label("instant"))
            tx.execute(insert(operation).from_select([*(column.name for column in others), "instant"], twins))
    a_running_operation(store, table, "runs")
    return table


def test_a_crowded_table_is_explained_from_few_rows(
    store: SqlStore, crowded: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = 2 ** doublings(store)
    explainer = Explainer(store=store, plugins=Plugins(formats={}, factories={}, engines={}), waits=lambda *_: {})
    with counting(store, monkeypatch) as cost:
        reported = explainer.explain(crowded.id)
    assert cost.rows < 200
    assert cost.statements < 15
    [compaction] = [one for one in reported.actions if one.action == COMPACTION]
    assert f"{many} more wait" in compaction.now


def test_a_crowded_table_is_cleared_in_batches(
    store: SqlStore, crowded: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = 2 ** doublings(store)
    with counting(store, monkeypatch) as cost:
        removed = service_over(store).clear(ANN, crowded.id)
    assert len(removed) == many + 1
    assert cost.statements < 20 * (many / BATCH + 1)
    assert cost.rows < 20
    [live] = store.operations.of_table(crowded.id, recent=0)
    assert live.cancel_requested, "what runs is asked to end"
    [reported] = store.events.list(kind="operation.cleared").items
    assert reported.event.message == f"{many} waiting operations of sales.orders were removed by ann"
    [last] = [o for o in store.operations.of_table(crowded.id, recent=1) if o.id != live.id]
    assert (last.status, last.is_deleted, last.reason) == (Status.CANCELED, True, "removed by ann")


def test_a_crowded_table_is_removed_in_batches(
    store: SqlStore, crowded: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = 2 ** doublings(store)
    with counting(store, monkeypatch) as cost:
        tables_over(store).retire(crowded.id, why="was dropped")
    assert cost.statements < 20 * (many / BATCH + 1)
    assert [o.status for o in store.operations.of_table(crowded.id, recent=0) if not o.cancel_requested] == []


def test_a_decision_about_a_crowded_table_reads_a_bounded_number_of_rows(
    store: SqlStore, crowded: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    with counting(store, monkeypatch) as cost:
        found = store.operations.of_table(crowded.id, recent=50)
    assert cost.rows == len(found) == 1001
    assert found[0].status is not Status.PENDING or found[-1].status is not Status.PENDING, "what runs is among them"


def test_an_operation_that_someone_holds_is_left_to_its_holder(store: SqlStore) -> None:
    table = a_table(store)
    held = a_running_operation(store, table, "runs")
    assert store.operations.end_waiting(table.id, now=NOON, reason="enough", limit=10) == []
    assert store.operations.get(held.id).status is held.status


def test_two_services_that_clear_one_table_end_each_operation_once(store: SqlStore, migrated_url: str) -> None:
    table = a_table(store)
    wanted = [a_pending_operation(store, table, instant).id for instant in instants(0, 60)]
    other, line = open_store(migrated_url), Barrier(2)

    def clear(own: SqlStore) -> list[OperationId]:
        line.wait(60)
        ended: list[OperationId] = []
        while batch := own.operations.end_waiting(table.id, now=NOON, reason="enough", limit=7):
            ended += batch
        return ended

    with ThreadPoolExecutor(2) as pool:
        both = [one for ended in pool.map(clear, [store, other]) for one in ended]
    other.close()

    assert sorted(both) == wanted
    assert {store.operations.get(one).status for one in wanted} == {Status.CANCELED}
