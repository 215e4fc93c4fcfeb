# SPDX-License-Identifier: Apache-2.0
"""The webhook against a real HTTP server: signed, without redirects, and silent about its secrets."""

import hashlib
import hmac
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from lakehand.alerters.webhook import WebhookAlerter
from lakehand.domain.errors import Invalid, Unavailable
from lakehand.spi.alerters import AlertText
from tests.alerters.receivers import HttpReceiver, http_receiver

SECRET = "a-secret-of-the-receiver"
TEXT = AlertText(id="7", kind="opened", severity="critical", title="[critical] it", body="why\nü", facts={"table": 3})


@pytest.fixture
def receiver() -> Iterator[HttpReceiver]:
    with http_receiver() as made:
        yield made


@pytest.fixture
def alerter(receiver: HttpReceiver) -> Iterator[WebhookAlerter]:
    made = WebhookAlerter()
    made.open({"url": receiver.url, "secret": SECRET})
    yield made
    made.close()


def verify(secret: str, header: str, body: bytes, now: float, tolerance: float = 300) -> bool:
    """As docs/alerts.md shows it."""
    parts = dict(part.split("=", 1) for part in header.split(","))
    expected = hmac.new(secret.encode(), parts["t"].encode() + b"." + body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(expected, parts["v1"]) and abs(now - int(parts["t"])) <= tolerance


def test_a_message_is_a_signed_json_document(receiver: HttpReceiver, alerter: WebhookAlerter) -> None:
    alerter.send(TEXT)

    [(headers, body)] = receiver.requests
    document: dict[str, Any] = json.loads(body)
    assert document == {
        "id": "7", "kind": "opened", "severity": "critical", "title": "[critical] it", "body": "why\nü",
        "alert": {"table": 3},
    }  # fmt: skip
    assert (headers["Content-Type"], headers["Lakehand-Message"]) == ("application/json", "7")
    signature = headers["Lakehand-Signature"]
    assert verify(SECRET, signature, body, time.time())
    assert not verify("another", signature, body, time.time())
    assert not verify(SECRET, signature, body + b" ", time.time())
    assert not verify(SECRET, signature, body, time.time() + 301)


@pytest.mark.parametrize("status", [301, 302, 307, 400, 404, 500, 503])
def test_any_other_answer_is_a_failure_and_no_redirect_is_followed(
    receiver: HttpReceiver, alerter: WebhookAlerter, status: int
) -> None:
    with http_receiver() as other:
        receiver.status, receiver.headers = status, {"Location": other.url}

        with pytest.raises(Unavailable, match=f"it answered {status}"):
            alerter.send(TEXT)

        assert other.requests == []


def test_a_receiver_that_is_not_there_is_a_failure_that_shows_no_address() -> None:
    alerter = WebhookAlerter()
    alerter.open({"url": "http://127.0.0.1:1/a-secret-path", "secret": SECRET})

    with pytest.raises(Unavailable) as raised:
        alerter.send(TEXT)

    assert str(raised.value) == "it cannot be reached (ConnectError)"
    alerter.close()


@pytest.mark.parametrize("url", ["", "ftp://host/x", "http://", "file:///etc/passwd", "mailto://a:b@c"])
def test_only_http_addresses_are_accepted(url: str) -> None:
    with pytest.raises(Invalid, match="https://"):
        WebhookAlerter().open({"url": url, "secret": SECRET})


def test_a_webhook_needs_a_secret() -> None:
    with pytest.raises(Invalid, match="no secret"):
        WebhookAlerter().open({"url": "https://example.com/x"})
