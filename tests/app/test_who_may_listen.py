# SPDX-License-Identifier: Apache-2.0
"""A service that others can reach asks for a token, or does not start."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from lakehand.api.access import TokenRequest
from lakehand.app.access import check_access, local_tokens, warn_if_open
from lakehand.app.settings import Settings
from lakehand.app.wiring import Service
from lakehand.core.ports import AuditFilter
from lakehand.core.services.access import AccessService
from lakehand.core.services.audit_trail import AuditTrail
from lakehand.domain.access import Role
from lakehand.domain.errors import Invalid
from lakehand.store import SqlStore, open_store

TOKENS = {"ops": SecretStr("5b7e0c1f9a3d42e8")}


@pytest.fixture
def store(sqlite_template: Path, tmp_path: Path) -> Iterator[SqlStore]:
    (tmp_path / "home").mkdir(mode=0o700)
    file = shutil.copyfile(sqlite_template, tmp_path / "home" / "lakehand.db")
    opened = open_store(f"sqlite:///{file}")
    yield opened
    opened.close()


def service_with(settings: Settings, store: SqlStore) -> Service:
    """As much of a service as these checks ask for."""
    made = object.__new__(Service)
    made.settings, made.access = (
        settings,
        AccessService(store=store, audit=AuditTrail(store=store), tokens=settings.token_secrets()),
    )
    return made


def test_interfaces_without_a_token_are_logged_when_others_can_reach_them(
    caplog: pytest.LogCaptureFixture, store: SqlStore
) -> None:
    warn_if_open(service_with(Settings(host="127.0.0.1"), store))
    assert caplog.records == []
    warn_if_open(service_with(Settings(host="0.0.0.0", tokens=TOKENS), store))
    [record] = caplog.records
    assert record.__dict__["open"] == ["the Hudi wire (wire_token)", "the commit callback (callback_key)"]


@pytest.mark.parametrize(
    "settings",
    [
        Settings(host="127.0.0.1"),
        Settings(host="::1"),
        Settings(host="0.0.0.0", tokens=TOKENS),
        Settings(host="0.0.0.0", insecure=True),
    ],
)
def test_a_service_listens_where_only_holders_of_a_token_reach_it(settings: Settings, store: SqlStore) -> None:
    check_access(service_with(settings, store))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.5", "box.internal"])
def test_a_service_without_a_token_does_not_listen_for_others(host: str, store: SqlStore, tmp_path: Path) -> None:
    settings = Settings(host=host, home=tmp_path / "home")
    with pytest.raises(Invalid, match="lakehand tokens create NAME --role admin --local"):
        check_access(service_with(settings, store))

    with local_tokens(settings) as (access, caller):
        access.create_token(caller, TokenRequest(name="ann", role=Role.VIEWER))
    check_access(service_with(settings, store))


def test_a_token_that_is_made_without_a_service_is_in_the_audit_trail(store: SqlStore, tmp_path: Path) -> None:
    with local_tokens(Settings(home=tmp_path / "home")) as (access, caller):
        access.create_token(caller, TokenRequest(name="ann", role=Role.ADMIN))

    [entry] = store.audit.list(AuditFilter(), limit=10, cursor=None).items
    assert (entry.request.action, entry.request.subject, entry.request.caller.via) == ("token.create", "ann", "local")


def test_the_first_token_of_a_new_home_makes_its_database(tmp_path: Path) -> None:
    with local_tokens(Settings(home=tmp_path / "new")) as (access, caller):
        access.create_token(caller, TokenRequest(name="ann", role=Role.ADMIN))
        assert [token.name for token in access.list_tokens(caller)] == ["ann"]
    assert (tmp_path / "new" / "lakehand.db").stat().st_mode & 0o077 == 0
