# SPDX-License-Identifier: Apache-2.0
"""Which alerts open, go on and end, who gets a message, and when."""

from datetime import datetime, time, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from lakehand.domain.alerts import (
    Alert,
    AlertId,
    AlertKind,
    AlertRules,
    Cause,
    Coverage,
    QuietHours,
    Route,
    Severity,
    compare,
)
from lakehand.domain.operations import InstanceId

NOON = datetime(2026, 11, 15, 12, tzinfo=timezone.utc)
HOUR = timedelta(hours=1)
HERE = Coverage(instance=InstanceId("here"))
BERLIN = ZoneInfo("Europe/Berlin")


def cause(key: str = "a", kind: AlertKind = AlertKind.OPERATION_FAILED, **values: str) -> Cause:
    return Cause(key=key, kind=kind, title="it failed", message="why", **values)  # type: ignore[arg-type]


def alert(of: Cause, **values: object) -> Alert:
    known = {"opened_at": NOON, "last_seen": NOON, "remind_at": NOON + HOUR}
    return Alert(id=AlertId(1), cause=of, **(known | values))  # type: ignore[arg-type]


def test_a_new_cause_opens_and_a_known_one_stays() -> None:
    changes = compare([alert(cause("known"))], [cause("known"), cause("new")], coverage=HERE, now=NOON)

    assert [one.key for one in changes.open] == ["new"]
    assert (changes.refresh, changes.resolve, changes.remind) == ([], [], [])


def test_a_cause_that_is_gone_is_resolved() -> None:
    changes = compare([alert(cause())], [], coverage=HERE, now=NOON)

    assert [one.cause.key for one in changes.resolve] == ["a"]


def test_a_cause_that_happened_again_is_counted() -> None:
    again = cause(occurrence="8")

    [(_, seen)] = compare([alert(cause(occurrence="7"))], [again], coverage=HERE, now=NOON).refresh

    assert seen is again


def test_an_alert_that_only_goes_on_is_written_now_and_then() -> None:
    known = alert(cause())

    assert compare([known], [cause()], coverage=HERE, now=NOON + timedelta(minutes=9)).refresh == []
    assert len(compare([known], [cause()], coverage=HERE, now=NOON + timedelta(minutes=10)).refresh) == 1


def test_only_its_own_instance_resolves_a_cause_that_it_alone_sees() -> None:
    theirs = alert(cause(instance="there"))

    assert compare([theirs], [], coverage=HERE, now=NOON).resolve == []
    gone = Coverage(instance=InstanceId("here"), gone={"there"})
    assert compare([theirs], [], coverage=gone, now=NOON).resolve == [theirs]


def test_nothing_is_resolved_whose_causes_were_not_all_read() -> None:
    unclear = Coverage(instance=InstanceId("here"), unclear={AlertKind.OPERATION_FAILED})

    assert compare([alert(cause())], [], coverage=unclear, now=NOON).resolve == []


def test_an_open_alert_is_repeated_after_a_while_unless_it_is_silenced() -> None:
    later = NOON + 2 * HOUR

    assert len(compare([alert(cause())], [cause()], coverage=HERE, now=later).remind) == 1
    silenced = alert(cause(), silenced_until=later + HOUR)
    assert compare([silenced], [cause()], coverage=HERE, now=later).remind == []
    assert len(compare([silenced], [cause()], coverage=HERE, now=later + HOUR).remind) == 1


@pytest.mark.parametrize(
    ("route", "expected"),
    [
        (Route(receivers=("ops",)), True),
        (Route(receivers=("ops",), owners=frozenset({"ann"})), True),
        (Route(receivers=("ops",), owners=frozenset({"bob"})), False),
        (Route(receivers=("ops",), queues=frozenset({"nightly"})), True),
        (Route(receivers=("ops",), formats=frozenset({"delta"})), False),
        (Route(receivers=("ops",), severities=frozenset({Severity.CRITICAL})), False),
        (Route(receivers=("ops",), severities=frozenset({Severity.WARNING, Severity.CRITICAL})), True),
    ],
)
def test_a_route_chooses_by_owner_queue_format_and_severity(route: Route, expected: bool) -> None:
    rules = AlertRules(receivers=("ops", "other"), routes=(route,))

    assert rules.receivers_of(cause(owner="ann", queue="nightly", format="hudi")) == (("ops",) if expected else ())


def test_without_routes_every_alert_goes_to_every_receiver_and_with_several_to_each_once() -> None:
    assert AlertRules(receivers=("a", "b")).receivers_of(cause()) == ("a", "b")
    twice = (Route(receivers=("a",)), Route(receivers=("a", "b")))
    assert AlertRules(receivers=("a", "b"), routes=twice).receivers_of(cause()) == ("a", "b")


NIGHT = QuietHours(start=time(22), end=time(7), zone=BERLIN)
LUNCH = QuietHours(start=time(12), end=time(13))


@pytest.mark.parametrize(
    ("hours", "now", "end"),
    [
        (LUNCH, NOON, NOON + HOUR),
        (LUNCH, NOON + HOUR, None),
        (LUNCH, NOON - timedelta(seconds=1), None),
        # 22:00 to 07:00 in Berlin is 21:00 to 06:00 UTC in winter.
        (NIGHT, datetime(2026, 11, 15, 22, tzinfo=timezone.utc), datetime(2026, 11, 16, 6, tzinfo=timezone.utc)),
        (NIGHT, datetime(2026, 11, 16, 2, tzinfo=timezone.utc), datetime(2026, 11, 16, 6, tzinfo=timezone.utc)),
        (NIGHT, datetime(2026, 11, 16, 6, tzinfo=timezone.utc), None),
        (NIGHT, datetime(2026, 11, 15, 20, 59, tzinfo=timezone.utc), None),
        # The night in which summer time ends: 07:00 in Berlin is 06:00 UTC.
        (NIGHT, datetime(2026, 10, 24, 22, tzinfo=timezone.utc), datetime(2026, 10, 25, 6, tzinfo=timezone.utc)),
    ],
)
def test_quiet_hours_end_at_their_local_time(hours: QuietHours, now: datetime, end: datetime | None) -> None:
    assert hours.end_after(now) == end


def test_in_quiet_hours_warnings_wait_and_critical_messages_do_not() -> None:
    rules = AlertRules(receivers=("ops",), quiet_hours=LUNCH)

    assert rules.due(Severity.WARNING, NOON) == NOON + HOUR
    assert rules.due(Severity.CRITICAL, NOON) == NOON
    assert rules.due(Severity.WARNING, NOON + HOUR) == NOON + HOUR
