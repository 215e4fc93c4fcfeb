# SPDX-License-Identifier: Apache-2.0
"""lakehand alerts ..., through the real API."""

import re
from collections.abc import Iterator

import pytest

from lakehand.core.loops.alert_sender import Receiver
from lakehand.store import SqlStore
from tests.alerters.mailboxes import Mailbox
from tests.cli.conftest import Run, answer
from tests.kit.sentences import Sentences
from tests.rest.parts import context_over, open_alert, serving, with_receivers


@pytest.fixture
def ops() -> Mailbox:
    return Mailbox()


@pytest.fixture
def url(store: SqlStore, ops: Mailbox) -> Iterator[str]:
    with serving(with_receivers(context_over(store), {"ops": Receiver(name="ops", alerter=ops)})) as client:
        yield str(client.base_url)


def test_alerts_are_listed(lakehand: Run, store: SqlStore, sentences: Sentences) -> None:
    sentences.check("no alerts", lakehand("alerts", "list").stdout.strip())

    open_alert(store)

    shown = lakehand("alerts", "list").stdout
    assert "warning" in shown
    assert "failed:1 failed" in shown
    assert answer(lakehand("alerts", "list", "--json"))["items"][0]["owner"] == "ann"


def test_an_alert_is_silenced(lakehand: Run, store: SqlStore, sentences: Sentences) -> None:
    number = open_alert(store)

    silenced = lakehand("alerts", "silence", number, "8h").stdout.strip()
    sentences.check("an alert is silenced", silenced, alert=number, until=re.compile(r"\S+Z"))
    assert "(silenced)" in lakehand("alerts", "list").stdout
    refused = lakehand("alerts", "silence", number, "soon")
    assert refused.exit_code == 1
    sentences.check("no duration", refused.output.strip(), value="'soon'")


def test_a_test_message_is_sent_and_a_failure_fails_the_command(lakehand: Run, ops: Mailbox) -> None:
    assert "ops: sent" in lakehand("alerts", "test").stdout

    ops.is_down = True
    failed = lakehand("alerts", "test", "ops")
    assert failed.exit_code == 1
    assert "is down" in failed.stdout
