# SPDX-License-Identifier: Apache-2.0
"""Tokens, sessions and the audit trail on each database."""

from datetime import timedelta

import pytest
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError

from lakehand.core.ports import AuditFilter
from lakehand.core.services.audit_trail import AuditTrail
from lakehand.domain.access import AuditAnswer, AuditRequest, Caller, NewToken, Role, TokenId, WebSession
from lakehand.domain.errors import NotFound, Unavailable
from lakehand.domain.operations import OperationId
from lakehand.domain.tables import TableId
from lakehand.store import SqlStore
from lakehand.store.schema import audit_answer, audit_request
from tests.store.given import HOUR, MINUTE, NOON

ANN = Caller(name="ann", role=Role.OPERATOR, owner="sales", address="10.0.0.5", via="rest")


def asked(action: str = "table.pause", **changes: object) -> AuditRequest:
    given: dict[str, object] = {
        "caller": ANN, "action": action, "subject": "sales.orders", "table": TableId(7), "operation": OperationId(9),
        "detail": {"paused": True}, "before": {"paused": False},
    }  # fmt: skip
    return AuditRequest(**(given | changes))  # type: ignore[arg-type]


def entries(store: SqlStore, **wanted: object) -> list[str]:
    page = store.audit.list(AuditFilter(**wanted), limit=100, cursor=None)  # type: ignore[arg-type]
    return [entry.request.action for entry in page.items]


def test_a_token_is_stored_listed_used_and_revoked(store: SqlStore) -> None:
    new = NewToken(name="ann", role=Role.OPERATOR, owner="sales", hash="ab" * 32, expires_at=NOON + HOUR)
    token = store.tokens.add(new, by="root", now=NOON)

    assert store.tokens.list() == [("ab" * 32, token)]
    assert (token.name, token.role, token.owner, token.created_by) == ("ann", Role.OPERATOR, "sales", "root")
    assert (token.created_at, token.expires_at, token.used_at) == (NOON, NOON + HOUR, None)
    store.tokens.note_use([token.id], now=NOON + MINUTE)
    revoked = store.tokens.revoke(token.id, now=NOON + MINUTE)
    assert (revoked.used_at, revoked.revoked_at) == (NOON + MINUTE, NOON + MINUTE)
    assert store.tokens.revoke(token.id, now=NOON + HOUR) == revoked
    assert [token.is_valid(NOON), token.is_valid(NOON + HOUR), revoked.is_valid(NOON)] == [True, False, False]
    assert [token.state(NOON), token.state(NOON + HOUR), revoked.state(NOON)] == ["valid", "expired", "revoked"]


def test_an_unknown_token_is_not_found(store: SqlStore) -> None:
    with pytest.raises(NotFound):
        store.tokens.revoke(TokenId(7), now=NOON)


def test_a_session_is_found_until_it_ends(store: SqlStore) -> None:
    session = WebSession(name="ann", role=Role.VIEWER, owner="", token=TokenId(3), seal="s", ends_at=NOON + HOUR)
    store.sessions.add("cd" * 32, session, now=NOON)

    assert store.sessions.find("cd" * 32) == session
    assert store.sessions.find("ef" * 32) is None
    assert store.sessions.remove_before(NOON + HOUR) == 0
    store.sessions.end("cd" * 32)
    assert store.sessions.find("cd" * 32) is None
    store.sessions.add("cd" * 32, session, now=NOON)
    assert store.sessions.remove_before(NOON + HOUR + MINUTE) == 1


def test_a_request_and_its_answer_are_two_rows_and_one_entry(store: SqlStore) -> None:
    number = store.audit.begin(asked(), now=NOON)
    [waiting] = store.audit.list(AuditFilter(), limit=10, cursor=None).items
    assert (waiting.request, waiting.answer, waiting.at) == (asked(), None, NOON)

    answer = AuditAnswer(code="ok", after={"paused": True})
    store.audit.finish(number, answer, now=NOON + MINUTE)

    [entry] = store.audit.list(AuditFilter(), limit=10, cursor=None).items
    assert (entry.id, entry.request, entry.answer, entry.answered_at) == (number, asked(), answer, NOON + MINUTE)


def test_an_answer_is_given_once(store: SqlStore) -> None:
    number = store.audit.begin(asked(), now=NOON)
    store.audit.finish(number, AuditAnswer(code="ok"), now=NOON)
    with pytest.raises(IntegrityError):
        store.audit.finish(number, AuditAnswer(code="forbidden"), now=NOON)


def test_entries_are_filtered_newest_first_and_paged(store: SqlStore) -> None:
    for action in ("table.add", "table.pause", "operation.cancel"):
        store.audit.begin(asked(action), now=NOON)
    store.audit.begin(
        asked("token.create", table=None, operation=None, caller=Caller(name="bo", role=Role.ADMIN)), now=NOON
    )

    assert entries(store) == ["token.create", "operation.cancel", "table.pause", "table.add"]
    assert entries(store, action="table.") == ["table.pause", "table.add"]
    assert entries(store, action="table.add") == ["table.add"]
    assert entries(store, caller="bo") == ["token.create"]
    assert len(entries(store, table=TableId(7))) == len(entries(store, operation=OperationId(9))) == 3
    first = store.audit.list(AuditFilter(), limit=3, cursor=None)
    rest = store.audit.list(AuditFilter(), limit=3, cursor=first.next)
    assert [entry.request.action for entry in rest.items] == ["table.add"]


def test_old_entries_are_removed_with_their_answers(store: SqlStore) -> None:
    for minutes in range(4):
        number = store.audit.begin(asked(f"table.{minutes}"), now=NOON + minutes * MINUTE)
        store.audit.finish(number, AuditAnswer(code="ok"), now=NOON)

    assert store.audit.remove_before(NOON + 2 * MINUTE, limit=1) == 1
    assert store.audit.remove_before(NOON + 2 * MINUTE, limit=10) == 1
    assert entries(store) == ["table.3", "table.2"]
    left = store.database.read(lambda tx: len(tx.execute(select(audit_answer)).all()))
    assert left == 2


def test_no_row_of_the_trail_is_changed_by_anything_that_is_recorded(store: SqlStore) -> None:
    trail = AuditTrail(store=store)
    with trail.record(asked("table.one")):
        pass
    before = store.database.read(lambda tx: tx.execute(select(audit_request)).all())
    with pytest.raises(NotFound), trail.record(asked("table.two")):
        raise NotFound("it is gone")
    with pytest.raises(ZeroDivisionError), trail.record(asked("table.three")):
        _ = 1 / 0

    assert store.database.read(lambda tx: tx.execute(select(audit_request)).all())[:1] == before
    codes = [entry.answer.code for entry in store.audit.list(AuditFilter(), limit=9, cursor=None).items if entry.answer]
    assert codes == ["error", "not-found", "ok"]


def test_nothing_is_done_that_cannot_be_recorded(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_given: object, **_more: object) -> None:
        raise Unavailable("the database is away")

    done: list[str] = []
    monkeypatch.setattr(type(store.audit), "begin", away)
    with pytest.raises(Unavailable), AuditTrail(store=store).record(asked()):
        done.append("paused")
    assert done == []


def test_an_answer_that_cannot_be_stored_is_unknown_and_the_request_is_answered(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_given: object, **_more: object) -> None:
        raise Unavailable("the database is away")

    monkeypatch.setattr(type(store.audit), "finish", away)
    with AuditTrail(store=store).record(asked()) as outcome:
        outcome.after = {"paused": True}

    [entry] = store.audit.list(AuditFilter(), limit=10, cursor=None).items
    assert entry.answer is None


def test_long_and_odd_names_are_stored(store: SqlStore) -> None:
    odd = Caller(name="n" * 400, role=Role.VIEWER, address="a" * 400)
    store.audit.begin(asked(caller=odd, subject="x\x00y" * 1000, detail={"é": "\N{GRINNING FACE}"}), now=NOON)

    [entry] = store.audit.list(AuditFilter(), limit=10, cursor=None).items
    assert len(entry.request.caller.name) == 250
    assert entry.request.detail == {"é": "\N{GRINNING FACE}"}
    assert timedelta(0) == entry.at - NOON
