# SPDX-License-Identifier: Apache-2.0
"""Who is recognised by which token or session, and for how long."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from lakehand.api.access import NewTokenAnswer, TokenRequest
from lakehand.core.ports import AuditFilter, Verified
from lakehand.core.services import access as access_service
from lakehand.core.services.access import PREFIX, AccessService
from lakehand.core.services.audit_trail import AuditTrail, Refusals
from lakehand.domain.access import AuditRequest, Caller, Role, TokenId
from lakehand.domain.errors import Conflict, Forbidden, Invalid, NotFound

SETTINGS = {"ann": "a-long-secret", "bob": "another-secret"}
ADMIN = Caller(name="root", role=Role.ADMIN)


def over(store: Any, tokens: Mapping[str, str] | None = None) -> AccessService:
    return AccessService(store=store, audit=AuditTrail(store=store), tokens=tokens or {})


def create(access: AccessService, name: str, role: Role, caller: Caller = ADMIN, **more: Any) -> NewTokenAnswer:
    return access.create_token(caller, TokenRequest(name=name, role=role, **more))


def at_once(access: AccessService) -> AccessService:
    """Another instance, which reads tokens at each question."""
    other = replace(access)
    other.cache.keep = 0.0
    return other


def test_without_any_token_everybody_is_an_admin(store: Any) -> None:
    access = over(store)

    assert access.is_open
    assert access.caller("", address="here", via="rest") == Caller(
        name="anonymous", role=Role.ADMIN, address="here", via="rest"
    )


def test_the_first_token_closes_the_service_and_revoking_it_does_not_open_it(store: Any) -> None:
    access = over(store)
    token = create(access, "airflow", Role.OPERATOR, owner="sales")

    assert not access.is_open
    assert access.caller("") is None
    assert access.caller(token.secret + "x") is None
    assert access.caller(token.secret) == Caller(name="airflow", role=Role.OPERATOR, owner="sales")
    access.revoke_token(ADMIN, TokenId(token.id))
    assert access.caller(token.secret) is None
    assert access.caller("") is None
    assert not access.is_open


def test_the_secret_is_recognisable_and_not_stored(store: Any) -> None:
    access = over(store)
    secret = create(access, "airflow", Role.VIEWER).secret

    assert secret.startswith(PREFIX)
    assert len(secret) > 40
    raw = store.database.read(lambda tx: tx.exec_driver_sql("SELECT * FROM api_token").all())
    assert secret not in str(raw)
    assert secret not in str(store.audit.list(AuditFilter(), limit=10, cursor=None))


def test_two_tokens_of_one_name_are_valid_until_the_old_one_is_revoked(store: Any) -> None:
    access = over(store)
    old = create(access, "airflow", Role.OPERATOR)
    first = old.secret
    second = create(access, "airflow", Role.OPERATOR).secret
    assert access.caller(first) == access.caller(second)

    access.revoke_token(ADMIN, TokenId(old.id))

    assert access.caller(first) is None
    assert access.caller(second)


def test_another_instance_learns_of_new_and_revoked_tokens(store: Any) -> None:
    access = over(store)
    other = at_once(access)
    assert other.is_open

    token = create(access, "airflow", Role.VIEWER)
    assert other.caller(token.secret)
    access.revoke_token(ADMIN, TokenId(token.id))
    assert other.caller(token.secret) is None


def test_a_token_expires(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    access = over(store)
    secret = create(access, "airflow", Role.VIEWER, life=3600).secret
    assert access.caller(secret)

    later = store.clock.now() + timedelta(hours=1, seconds=1)
    monkeypatch.setattr(type(store.clock), "estimate", lambda _clock: later)

    assert access.caller(secret) is None
    assert not access.remembers(secret)


def test_the_last_use_of_a_token_is_noted(store: Any) -> None:
    access = over(store)
    access.cache.keep = 0.0
    token = create(access, "airflow", Role.VIEWER)
    access.caller(token.secret)
    access.caller("")

    assert store.tokens.get(TokenId(token.id)).used_at is not None


def test_tokens_of_the_settings_are_admins(store: Any) -> None:
    access = over(store, SETTINGS)

    assert access.caller("a-long-secret") == Caller(name="ann", role=Role.ADMIN)
    assert access.caller("") is None
    assert access.remembers("another-secret")
    assert not access.remembers("")


@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR])
def test_only_admins_make_list_and_revoke_tokens(store: Any, role: Role) -> None:
    access = over(store)
    token = create(access, "airflow", Role.VIEWER)
    caller = Caller(name="eve", role=role)
    for attempt in (
        lambda: create(access, "eve", Role.ADMIN, caller),
        lambda: access.revoke_token(caller, TokenId(token.id)),
        lambda: access.list_tokens(caller),
    ):
        with pytest.raises(Forbidden):
            attempt()
    assert [one.name for one in access.list_tokens(ADMIN)] == ["airflow"]


@pytest.mark.parametrize(
    ("name", "role", "more", "error"),
    [
        ("", Role.VIEWER, {}, Invalid),
        ("a b", Role.VIEWER, {}, Invalid),
        ("Anonymous", Role.VIEWER, {}, Invalid),
        ("writer", Role.VIEWER, {}, Invalid),
        ("ann", Role.VIEWER, {}, Conflict),
        ("carl", Role.ADMIN, {"owner": "sales"}, Invalid),
        ("carl", Role.VIEWER, {"life": -1.0}, Invalid),
        ("carl", Role.VIEWER, {"life": 100_000 * 86400.0}, Invalid),
    ],
)
def test_a_token_that_makes_no_sense_is_refused(
    store: Any, name: str, role: Role, more: dict[str, Any], error: type[Exception]
) -> None:
    access = over(store, SETTINGS)
    with pytest.raises(error):
        create(access, name, role, **more)
    assert access.list_tokens(ADMIN) == []


def test_an_unknown_token_cannot_be_revoked(store: Any) -> None:
    access = over(store)
    with pytest.raises(NotFound, match="lakehand tokens list"):
        access.revoke_token(ADMIN, TokenId(7))


def sign_in(access: AccessService, secret: str) -> str:
    cookie = access.sign_in(secret, address="here")
    assert cookie is not None
    return cookie


def test_a_session_rests_on_its_token(store: Any) -> None:
    access = over(store)
    token = create(access, "carl", Role.OPERATOR, owner="sales")
    cookie = sign_in(access, token.secret)

    assert access.session(cookie) == Caller(name="carl", role=Role.OPERATOR, owner="sales", via="dashboard")
    assert access.session(cookie[:-1]) is None
    assert access.session("") is None
    access.revoke_token(ADMIN, TokenId(token.id))
    assert access.session(cookie) is None


def test_a_session_of_a_token_of_the_settings_ends_when_the_secret_changes(store: Any) -> None:
    access = over(store, SETTINGS)
    cookie = sign_in(access, "a-long-secret")

    assert access.session(cookie) == Caller(name="ann", role=Role.ADMIN, via="dashboard")
    assert over(store, {"ann": "a-new-secret"}).session(cookie) is None
    assert over(store, {"bob": "another-secret"}).session(cookie) is None


def test_a_session_ends_with_its_time_or_the_sign_out(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    access = over(store, SETTINGS)
    first, second = sign_in(access, "a-long-secret"), sign_in(access, "a-long-secret")
    access.sign_out(first, address="here")
    assert access.session(first) is None
    assert access.session(second)

    later = store.clock.now() + access_service.SESSION_LIFE
    monkeypatch.setattr(type(store.clock), "estimate", lambda _clock: later)

    assert access.session(second) is None


def test_neither_the_cookie_nor_the_secret_is_stored(store: Any) -> None:
    access = over(store, SETTINGS)
    cookie = sign_in(access, "a-long-secret")

    raw = str(store.database.read(lambda tx: tx.exec_driver_sql("SELECT * FROM web_session").all()))
    assert cookie not in raw
    assert "a-long-secret" not in raw


def test_a_wrong_token_begins_no_session(store: Any) -> None:
    access = over(store, SETTINGS)

    assert access.sign_in("guessed", address="here") is None


class Provider:
    """A stand-in for an identity provider."""

    is_on = True

    def __init__(self, ends_at: datetime) -> None:
        self.ends_at = ends_at

    def verify(self, text: str) -> Verified | None:
        if text != "a.b.c":
            return None
        return Verified(caller=Caller(name="dan", role=Role.OPERATOR), ends_at=self.ends_at.timestamp())


def test_a_token_of_an_identity_provider_is_accepted_and_its_session_does_not_outlive_it(
    store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = datetime.now(timezone.utc)
    access = AccessService(store=store, audit=AuditTrail(store=store), verifier=Provider(now + timedelta(minutes=5)))

    assert not access.is_open
    assert access.caller("") is None
    assert access.caller("a.b.c") == Caller(name="dan", role=Role.OPERATOR)
    cookie = sign_in(access, "a.b.c")
    assert access.session(cookie)
    monkeypatch.setattr(type(store.clock), "estimate", lambda _clock: now + timedelta(minutes=6))
    assert access.session(cookie) is None


def test_refused_requests_are_counted_and_leave_little_behind(store: Any) -> None:
    access = over(store)
    eve = Caller(name="eve", role=Role.VIEWER, address="10.0.0.9")
    for _ in range(120):
        with pytest.raises(Forbidden):
            create(access, "x" * 60_000, Role.ADMIN, eve, owner="y" * 60_000)
    with pytest.raises(Forbidden):
        create(access, "x", Role.ADMIN, replace(eve, name="mallory"))

    entries = store.audit.list(AuditFilter(), limit=1000, cursor=None).items

    assert [(e.request.caller.name, e.request.detail.get("times")) for e in entries] == [
        ("mallory", None), ("eve", 100), *[("eve", None)] * 10
    ]  # fmt: skip
    assert max(len(str(entry)) for entry in entries) < 2_500
    assert entries[0].request.detail == {"role": "admin", "owner": ""}


def test_refused_requests_are_counted_anew_after_a_while() -> None:
    refusals, request = Refusals(), AuditRequest(caller=ADMIN, action="table.add", subject="x")
    noon = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)

    counts = [refusals.count(request, noon + timedelta(minutes=minutes)) for minutes in (*range(12), 61)]

    assert counts == [*range(1, 11), None, None, 1]
