# SPDX-License-Identifier: Apache-2.0
"""Sends messages as JSON by HTTP POST, signed with HMAC-SHA256 over time and body."""

import hashlib
import hmac
import json
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import urlsplit

from lakehand.domain.errors import Invalid, Unavailable
from lakehand.spi.alerters import Alerter, AlertText

if TYPE_CHECKING:  # importing it takes a fifth of a second
    import httpx

TIMEOUT = 10.0  # seconds to connect, to write, and to wait for each part of the answer
SIGNATURE, MESSAGE = "Lakehand-Signature", "Lakehand-Message"


class WebhookAlerter(Alerter):
    name: ClassVar[str] = "webhook"

    def __init__(self) -> None:
        self._url = self._secret = ""
        self._http: httpx.Client | None = None

    def open(self, properties: Mapping[str, str]) -> None:
        import httpx

        self._url, self._secret = properties.get("url", ""), properties.get("secret", "")
        parts = urlsplit(self._url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise Invalid("its url must begin with https:// or http:// and name a host")
        if not self._secret:
            raise Invalid("it has no secret: its receiver could not tell our messages from those of others")
        self._http = httpx.Client(timeout=TIMEOUT, follow_redirects=False, trust_env=False)

    def send(self, text: AlertText) -> None:
        import httpx

        assert self._http is not None
        content = json.dumps(document_of(text)).encode()
        now = str(int(time.time()))
        headers = {
            "Content-Type": "application/json",
            MESSAGE: text.id,
            SIGNATURE: f"t={now},v1={signature(self._secret, now, content)}",
        }
        try:
            # The answer's body is not read: it may have no end.
            with self._http.stream("POST", self._url, content=content, headers=headers) as answer:
                status = answer.status_code
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise Unavailable(f"it cannot be reached ({type(error).__name__})") from None
        if not 200 <= status < 300:
            raise Unavailable(f"it answered {status}")

    def close(self) -> None:
        if self._http is not None:
            self._http.close()


def document_of(text: AlertText) -> dict[str, object]:
    return {
        "id": text.id, "kind": text.kind, "severity": text.severity, "title": text.title, "body": text.body,
        "alert": dict(text.facts),
    }  # fmt: skip


def signature(secret: str, at: str, content: bytes) -> str:
    return hmac.new(secret.encode(), at.encode() + b"." + content, hashlib.sha256).hexdigest()
