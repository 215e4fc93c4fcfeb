# SPDX-License-Identifier: Apache-2.0
"""Apprise against a real mail server."""

import email
import email.policy
import logging

import pytest

from lakehand.alerters.apprise import AppriseAlerter
from lakehand.domain.errors import Invalid, Unavailable
from lakehand.spi.alerters import AlertText
from tests.alerters.receivers import mail_server

TEXT = AlertText(
    id="7", kind="opened", severity="warning", title="[warning] compaction of sales.orders failed",
    body="no space\n<script>alert(1)</script>",
)  # fmt: skip


def alerter_of(port: int) -> AppriseAlerter:
    made = AppriseAlerter()
    made.open({"url": f"mailto://127.0.0.1:{port}?from=lakehand@example.com&to=ops@example.com&mode=insecure"})
    return made


def test_a_message_is_a_mail() -> None:
    with mail_server() as (mails, port):
        alerter_of(port).send(TEXT)

    [envelope] = mails.envelopes
    mail = email.message_from_bytes(envelope.content, policy=email.policy.default)
    assert envelope.rcpt_tos == ["ops@example.com"]
    assert mail["Subject"] == TEXT.title
    part = mail.get_body(("plain", "html"))
    assert part is not None
    assert "no space" in part.get_content()
    html = mail.get_body(("html",))
    assert html is None or "<script>" not in html.get_content()


def test_a_mail_server_that_is_away_is_a_failure_that_shows_and_logs_no_address(
    caplog: pytest.LogCaptureFixture,
) -> None:
    alerter = AppriseAlerter()
    alerter.open({"url": "mailto://ann:hush@127.0.0.1:1?from=a@example.com&to=b@example.com&mode=insecure"})

    with caplog.at_level(logging.DEBUG), pytest.raises(Unavailable) as raised:
        alerter.send(TEXT)

    assert str(raised.value) == "E-Mail did not accept it, or did not answer"
    assert "hush" not in caplog.text


@pytest.mark.parametrize("url", ["", "nonsense", "nobody-has-this://x", "slack://hush"])
def test_a_url_that_apprise_does_not_understand_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(Invalid) as raised:
        AppriseAlerter().open({"url": url})

    assert "hush" not in str(raised.value)
