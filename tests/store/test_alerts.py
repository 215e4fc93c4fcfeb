# SPDX-License-Identifier: Apache-2.0
"""Alerts on each database: one per cause, with messages that one instance at a time can claim."""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import select

from lakehand.core.ports import Store
from lakehand.domain.alerts import (
    Alert,
    AlertChanges,
    AlertId,
    AlertKind,
    AlertMessage,
    AlertRules,
    Cause,
    QuietHours,
    Severity,
)
from lakehand.domain.errors import NotFound
from lakehand.domain.events import Event
from lakehand.domain.operations import InstanceId, Status
from lakehand.store import SqlStore, open_store
from lakehand.store.schema import alert_message
from tests.store.given import (
    HOUR,
    MINUTE,
    NOON,
    ONE,
    SECOND,
    TWO,
    a_finished_operation,
    a_running_operation,
    a_table,
)

RULES = AlertRules(receivers=("ops",))


def cause(key: str = "failed:1", **values: Any) -> Cause:
    named: dict[str, Any] = {"kind": AlertKind.OPERATION_FAILED, "title": f"{key} failed", "message": "no space"}
    return Cause(key=key, **(named | values))


def open_causes(store: Store, *causes: Cause, now: datetime = NOON, rules: AlertRules = RULES) -> int:
    return store.alerts.change(AlertChanges(open=causes), rules, read_at=now, now=now).opened


def resolve(store: Store, *alerts: Alert, now: datetime = NOON) -> int:
    return store.alerts.change(AlertChanges(resolve=alerts), RULES, read_at=now, now=now).resolved


def claim(
    store: Store, receiver: str = "ops", *, by: InstanceId = ONE, now: datetime = NOON, limit: int = 10
) -> list[AlertMessage]:
    return list(store.alerts.claim(receiver, holder=by, now=now, time_to_live=MINUTE, limit=limit))


def kinds(messages: list[AlertMessage]) -> list[str]:
    return [str(message.kind) for message in messages]


def test_an_open_cause_is_an_alert_with_a_message_and_an_event(store: SqlStore) -> None:
    given = cause(owner="ann", queue="q", format="hudi", occurrence="7")

    assert open_causes(store, given) == 1

    [known] = store.alerts.open_alerts()
    assert known.cause == given
    assert (known.opened_at, known.last_seen, known.count, known.is_open) == (NOON, NOON, 1, True)
    [message] = claim(store)
    assert (message.kind, message.alert, message.attempts) == ("opened", known, 1)
    [event] = store.events.list(kind="alert.").items
    assert (event.event.kind, event.event.detail["by"]) == ("alert.opened", "lakehand")


def test_a_cause_that_is_open_does_not_open_again(store: SqlStore) -> None:
    open_causes(store, cause())

    assert open_causes(store, cause()) == 0
    assert len(store.alerts.open_alerts()) == 1
    assert len(claim(store)) == 1


def test_a_cause_that_a_rival_has_resolved_since_it_was_read_does_not_open_again(store: SqlStore) -> None:
    open_causes(store, cause())
    resolve(store, *store.alerts.open_alerts(), now=NOON + SECOND)

    changes = AlertChanges(open=[cause()])
    assert store.alerts.change(changes, RULES, read_at=NOON, now=NOON + MINUTE).opened == 0
    assert store.alerts.change(changes, RULES, read_at=NOON + MINUTE, now=NOON + MINUTE).opened == 1


def test_a_very_long_key_is_still_one_cause(store: SqlStore) -> None:
    long = cause("queue-stuck:" + "ü" * 250)

    assert [open_causes(store, long), open_causes(store, long)] == [1, 0]


def test_whoever_resolves_first_writes_the_message(store: SqlStore) -> None:
    open_causes(store, cause())
    [known] = store.alerts.open_alerts()

    assert [resolve(store, known), resolve(store, known)] == [1, 0]

    assert store.alerts.open_alerts() == []
    assert store.alerts.get(known.id).resolved_at == NOON
    [opened] = claim(store)
    store.alerts.finish(opened, now=NOON)
    assert kinds(claim(store)) == ["resolved"]


def test_a_message_is_claimed_by_one_instance_until_its_lease_ends(store: SqlStore) -> None:
    open_causes(store, cause())

    [first] = claim(store, by=ONE)
    assert claim(store, by=TWO) == []
    [second] = claim(store, by=TWO, now=NOON + MINUTE)

    assert not store.alerts.finish(first, now=NOON + MINUTE)
    assert store.alerts.finish(second, now=NOON + MINUTE)
    assert claim(store, now=NOON + HOUR) == []


def test_a_message_that_was_not_sent_is_due_again_later(store: SqlStore) -> None:
    open_causes(store, cause())
    [message] = claim(store)

    assert store.alerts.postpone(message, error="it answered 500", due=NOON + MINUTE, now=NOON)

    assert store.alerts.due_receivers(now=NOON + MINUTE - SECOND) == []
    assert store.alerts.due_receivers(now=NOON + MINUTE) == ["ops"]
    [again] = claim(store, now=NOON + MINUTE)
    assert (again.id, again.attempts) == (message.id, 2)
    store.alerts.postpone(again, error="for good", due=None, now=NOON + MINUTE)
    assert claim(store, now=NOON + HOUR) == []


def test_resolved_is_not_sent_before_opened(store: SqlStore) -> None:
    open_causes(store, cause())
    [opened] = claim(store)
    store.alerts.postpone(opened, error="down", due=NOON + HOUR, now=NOON)
    resolve(store, *store.alerts.open_alerts())

    assert claim(store) == []
    [again] = claim(store, now=NOON + HOUR)
    store.alerts.finish(again, now=NOON + HOUR)
    assert (again.kind, kinds(claim(store, now=NOON + HOUR))) == ("opened", ["resolved"])


def test_an_alert_that_nobody_was_told_of_ends_quietly(store: SqlStore) -> None:
    open_causes(store, cause(), rules=AlertRules())
    resolve(store, *store.alerts.open_alerts())

    assert store.alerts.due_receivers(now=NOON + HOUR) == []


def test_a_former_process_gives_its_messages_back(store: SqlStore) -> None:
    open_causes(store, cause())
    [message] = claim(store, by=ONE)

    assert store.alerts.release(TWO) == 0
    assert store.alerts.release(ONE) == 1
    assert [one.id for one in claim(store, by=ONE)] == [message.id]


def test_two_instances_count_an_occurrence_once(store: SqlStore) -> None:
    open_causes(store, cause(occurrence="1"))
    [known] = store.alerts.open_alerts()
    refresh = AlertChanges(refresh=[(known, cause(occurrence="2", message="still no space"))])

    for _ in range(2):
        store.alerts.change(refresh, RULES, read_at=NOON, now=NOON + MINUTE)

    [seen] = store.alerts.open_alerts()
    assert (seen.count, seen.last_seen, seen.cause.message) == (2, NOON + MINUTE, "still no space")


def test_one_instance_reminds_and_not_before_the_last_message_was_sent(store: SqlStore) -> None:
    open_causes(store, cause())
    day = NOON + RULES.reminder

    def remind(known: Alert, now: datetime) -> None:
        store.alerts.change(AlertChanges(remind=[known]), RULES, read_at=now, now=now)

    [known] = store.alerts.open_alerts()
    remind(known, day)
    [message] = claim(store, now=day)
    store.alerts.finish(message, now=day)
    assert (message.kind, claim(store, now=day)) == ("opened", [])

    [known] = store.alerts.open_alerts()
    remind(known, day + RULES.reminder)
    remind(known, day + RULES.reminder)  # the rival, who has read the same
    assert kinds(claim(store, now=day + RULES.reminder)) == ["reminder"]


def test_beyond_the_bound_one_message_counts_the_rest(store: SqlStore) -> None:
    every = [cause(f"failed:{number}") for number in range(1000)]

    assert open_causes(store, *every) == 1000
    assert open_causes(store, *(cause(f"more:{number}") for number in range(5)), now=NOON + SECOND) == 5

    messages = claim(store, now=NOON + 2 * MINUTE, limit=2000)
    assert kinds(messages).count("opened") == 50
    assert [one.more for one in messages if one.kind == "summary"] == [955]
    assert len(messages) == 51
    for message in messages:
        store.alerts.finish(message, now=NOON + 2 * MINUTE)
    assert resolve(store, *store.alerts.open_alerts(), now=NOON + HOUR) == 1005
    assert kinds(claim(store, now=NOON + HOUR, limit=2000)) == ["resolved"] * 50


def test_in_quiet_hours_the_summary_of_warnings_waits_and_that_of_critical_alerts_does_not(store: SqlStore) -> None:
    quiet = QuietHours(start=NOON.time(), end=(NOON + HOUR).time())
    rules = replace(RULES, quiet_hours=quiet, most_per_minute=1)
    every = [
        cause("disk", kind=AlertKind.DISK_FULL),
        cause("queue", kind=AlertKind.QUEUE_STUCK),
        cause("z"),
        cause("y"),
    ]
    open_causes(store, *every, rules=rules)

    now, later = (claim(store, now=NOON + wait) for wait in (2 * MINUTE, HOUR))

    assert [(one.kind, one.severity, one.more) for one in now] == [
        ("opened", "critical", 0),
        ("summary", "critical", 1),
    ]
    assert [(one.severity, one.more) for one in later if one.severity == "warning"] == [("warning", 2)]


def test_a_summary_that_was_sent_too_early_is_sent_again_with_all_that_it_counts(store: SqlStore) -> None:
    few = replace(RULES, most_per_minute=1)
    open_causes(store, cause("a"), cause("b"), rules=few)
    for message in claim(store, now=NOON + 2 * MINUTE):
        store.alerts.finish(message, now=NOON + 2 * MINUTE)

    open_causes(store, cause("c"), rules=few)  # by a slow instance, whose now is long ago

    assert [(one.kind, one.more) for one in claim(store, now=NOON + 3 * MINUTE)] == [("summary", 2)]


def test_warnings_wait_for_the_end_of_the_quiet_hours(store: SqlStore) -> None:
    quiet = QuietHours(start=NOON.time(), end=(NOON + HOUR).time())
    rules = replace(RULES, quiet_hours=quiet)

    open_causes(store, cause(), cause("disk", kind=AlertKind.DISK_FULL), rules=rules)

    assert [one.alert.cause.key for one in claim(store) if one.alert] == ["disk"]
    assert len(claim(store, now=NOON + HOUR, by=TWO)) == 2  # and the lease of the other one has run out


def test_a_silenced_alert_holds_its_messages_back_and_notes_by_whom(store: SqlStore) -> None:
    open_causes(store, cause())
    [known] = store.alerts.open_alerts()
    event = Event(kind="alert.silenced", message="by ann", detail={"by": "ann"})

    silenced = store.alerts.silence(known.id, until=NOON + HOUR, now=NOON, event=event)

    assert silenced.silenced_until == NOON + HOUR
    assert (claim(store), len(claim(store, now=NOON + HOUR))) == ([], 1)
    assert store.events.list(kind="alert.silenced").items[0].event.detail == {"by": "ann"}
    with pytest.raises(NotFound):
        store.alerts.silence(AlertId(99), until=NOON, now=NOON, event=event)


def test_alerts_are_listed_newest_first_and_counted(store: SqlStore) -> None:
    open_causes(store, cause("a"), cause("b"), cause("disk", kind=AlertKind.DISK_FULL))
    first = store.alerts.open_alerts()[0]
    resolve(store, first)

    page = store.alerts.list(only_open=True, limit=1, cursor=None)
    rest = store.alerts.list(only_open=True, limit=5, cursor=page.next)
    assert [one.cause.key for one in (*page.items, *rest.items)] == ["disk", "b"]
    assert len(store.alerts.list(only_open=False, limit=5, cursor=None).items) == 3
    assert store.alerts.counts() == {Severity.CRITICAL: 1, Severity.WARNING: 1}


def test_old_alerts_are_removed_with_their_messages_and_open_ones_are_kept(store: SqlStore) -> None:
    open_causes(store, cause("a"), cause("b"))
    first, _ = store.alerts.open_alerts()
    resolve(store, first)
    for _ in range(2):
        for message in claim(store):
            assert store.alerts.remove_before(NOON + SECOND, limit=10) == 0  # not all was sent
            store.alerts.finish(message, now=NOON)

    assert store.alerts.remove_before(NOON, limit=10) == 0
    assert store.alerts.remove_before(NOON + SECOND, limit=10) == 1

    assert len(store.alerts.list(only_open=False, limit=5, cursor=None).items) == 1
    assert len(store.database.read(lambda tx: tx.execute(select(alert_message)).all())) == 1


def test_many_instances_at_once_open_a_cause_once_and_claim_each_message_once(
    store: SqlStore, migrated_url: str
) -> None:
    """Each claims with one lease after the other, until nothing is left."""
    causes = [cause(f"failed:{number}") for number in range(30)]
    start = threading.Barrier(6)

    def work(name: int) -> tuple[int, list[int]]:
        own, claimed = open_store(migrated_url), list[int]()
        start.wait()
        opened = open_causes(own, *(causes if name % 2 else reversed(causes)))
        while messages := claim(own, by=InstanceId(str(name)), limit=3):
            claimed += [message.id for message in messages]
        own.close()
        return opened, claimed

    with ThreadPoolExecutor(6) as instances:
        results = list(instances.map(work, range(6)))

    assert sum(opened for opened, _ in results) == len(store.alerts.open_alerts()) == 30
    every = [number for _, claimed in results for number in claimed]
    assert (len(every), len(set(every))) == (30, 30)


def test_many_instances_at_once_resolve_and_remind_once(store: SqlStore, migrated_url: str) -> None:
    open_causes(store, *(cause(f"failed:{number}") for number in range(10)))
    known = store.alerts.open_alerts()
    for message in claim(store):
        store.alerts.finish(message, now=NOON)
    start, day = threading.Barrier(6), NOON + RULES.reminder

    def work(_: int) -> int:
        own = open_store(migrated_url)
        start.wait()
        own.alerts.change(AlertChanges(remind=known), RULES, read_at=day, now=day)
        resolved = resolve(own, *known, now=day)
        own.close()
        return resolved

    with ThreadPoolExecutor(6) as instances:
        assert sum(instances.map(work, range(6))) == 10

    rows = store.database.read(lambda tx: tx.scalars(select(alert_message.c.kind)).all())
    assert Counter(rows) == {"opened": 10, "reminder": 10, "resolved": 10}


def troubles(store: Store, now: datetime) -> Any:
    since = now - 5 * MINUTE
    return store.alerts.troubles(unreadable_since=since, unknown_since=since, lost_since=since, limit=10)


def test_troubles_are_failed_and_unreadable_tables_unknown_operations_and_lost_leases(store: SqlStore) -> None:
    failed, unread, unknown = (a_table(store, f"/w/{name}") for name in ("failed", "unread", "unknown"))
    operation = a_finished_operation(store, failed)
    store.probes.finish({unread.id: NOON}, {}, now=NOON, problems={unread.id: "no such file"})
    running = a_running_operation(store, unknown)
    store.operations.save(running.moved_to(Status.UNKNOWN, at=NOON, reason="silent"), now=NOON)
    store.events.add([Event(kind="operation.rescued", message="taken over from one")], now=NOON)

    found = troubles(store, NOON + 5 * MINUTE)

    assert [(one.name, one.action, one.operation) for one in found.failed] == [
        ("sales.failed", "compaction", operation.id)
    ]
    assert [(one.name, one.reason, one.since) for one in found.unreadable] == [("sales.unread", "no such file", NOON)]
    assert [(one.name, one.operation) for one in found.unknown] == [("sales.unknown", running.id)]
    assert [one.message for one in found.lost_leases] == ["taken over from one"]


def test_a_short_trouble_and_a_paused_table_are_none(store: SqlStore) -> None:
    table = a_table(store)
    store.probes.finish({table.id: NOON}, {}, now=NOON, problems={table.id: "no such file"})
    store.events.add([Event(kind="operation.rescued", message="found again after a restart")], now=NOON)

    found = troubles(store, NOON + 5 * MINUTE - timedelta(milliseconds=1))

    assert (found.unreadable, found.lost_leases) == ([], [])
