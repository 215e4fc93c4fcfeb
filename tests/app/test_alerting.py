# SPDX-License-Identifier: Apache-2.0
"""Alerts as the service wires them: from a failed operation in the database to a mail and a signed request."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakehand.api.alerts import TestRequest
from lakehand.app import wiring
from lakehand.app.settings import load
from lakehand.app.wiring import Service
from lakehand.core.ports import PluginReport
from lakehand.domain.access import Caller, Role
from lakehand.store import migrate
from tests.alerters.receivers import HttpReceiver, Mails, http_receiver, mail_server
from tests.app.distributions import Installer
from tests.core.waiting import eventually
from tests.store.given import a_finished_operation, a_table

SOURCE = "from lakehand.alerters.apprise import AppriseAlerter\nfrom lakehand.alerters.webhook import WebhookAlerter\n"
LOOPS = ("alerts", "alert-sender", "engine-supervisor")


@pytest.fixture
def hook() -> Iterator[HttpReceiver]:
    with http_receiver() as made:
        yield made


@pytest.fixture
def mails() -> Iterator[tuple[Mails, int]]:
    with mail_server() as made:
        yield made


@pytest.fixture
def service(
    tmp_path: Path, hook: HttpReceiver, mails: tuple[Mails, int], installer: Installer
) -> Iterator[Service]:  # fmt: skip
    # Under names of its own, so that it does not matter whether the installed distribution has ours already.
    installer.install("own-alerters", {"alerters": {"mail": "AppriseAlerter", "hook": "WebhookAlerter"}}, SOURCE)
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    config = home / "lakehand.toml"
    config.write_text(f"""
        [alerts.receivers.mail]
        kind = "mail"
        url = "mailto://127.0.0.1:{mails[1]}?from=lakehand@example.com&to=ops@example.com&mode=insecure"
        [alerts.receivers.on-call]
        kind = "hook"
        url = "{hook.url}"
        secret = "a-secret-of-the-receiver"
    """)
    settings = load({"home": home}, config)
    migrate.upgrade(settings.database_url)
    built = wiring.build(settings)
    yield built
    built.stop()


def test_a_failed_operation_becomes_a_mail_and_a_request(
    service: Service, hook: HttpReceiver, mails: tuple[Mails, int]
) -> None:
    a_finished_operation(service.store, a_table(service.store))

    service.start(only=LOOPS)

    assert eventually(lambda: bool(hook.bodies) and bool(mails[0].envelopes))
    document = json.loads(hook.bodies[0])
    assert (document["kind"], document["title"]) == ("opened", "[warning] compaction of sales.orders failed")
    assert b"compaction of sales.orders failed" in mails[0].envelopes[0].content


def test_a_test_reaches_every_receiver(service: Service, hook: HttpReceiver, mails: tuple[Mails, int]) -> None:
    results = service.alerting.service.test(Caller(name="ann", role=Role.OPERATOR), TestRequest())

    assert [(one.receiver, one.sent) for one in results] == [("mail", True), ("on-call", True)]
    assert (len(hook.bodies), len(mails[0].envelopes)) == (1, 1)


def test_receivers_are_listed_with_the_plugins_and_without_their_addresses(service: Service) -> None:
    listed = [one for one in service.plugin_reports() if one.kind == "alerter"]

    assert {one.name for one in listed} == set(service.alerting.receivers)
    assert {one.state for one in listed} <= {"on", "broken"}
    assert "127.0.0.1" not in str(listed)


def test_a_receiver_that_cannot_be_used_is_an_alert_for_the_others(service: Service) -> None:
    receiver = service.alerting.receivers["mail"]
    receiver.alerter, receiver.problem = None, "the receiver cannot be used: no apprise"

    service.alerting.build_monitor(service.plugins, dict).run_once()

    titles = [alert.cause.title for alert in service.store.alerts.open_alerts()]
    assert "the alerter mail is broken" in titles


def test_the_plugins_of_this_instance_are_watched(service: Service) -> None:
    broken = PluginReport(kind="engine", name="odd", distribution="odd", version="1", state="broken", reason="no Java")
    monitor = service.alerting.build_monitor(service.plugins, dict)
    monitor.plugins = lambda: [broken]

    monitor.run_once()

    [alert] = service.store.alerts.open_alerts()
    assert (alert.cause.title, alert.cause.instance) == ("the engine odd is broken", service.identity.id)
