# SPDX-License-Identifier: Apache-2.0
"""The keys of an issuer: found, kept, read again after a rotation; an issuer that is down or hangs harms nobody."""

import json
import logging
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from lakehand.domain.errors import Unavailable
from lakehand.oidc import Documents, Issuer, IssuerKeys, OidcVerifier
from lakehand.oidc.keys import FRESH, PAUSE
from tests.kit.polling import wait_for
from tests.oidc.conftest import Clock
from tests.oidc.issuers import TestIssuer, public

TIMEOUT = 30.0  # seconds
KEYS = "/keys"
NEW_KEYS = json.dumps({"keys": [public("rsa-new")]}).encode()
DISCOVERY = "/.well-known/openid-configuration"


def test_keys_are_found_by_discovery_and_read_once(issuer: TestIssuer, verifier: OidcVerifier) -> None:
    assert all(verifier.verify(issuer.token()) for _ in range(5))
    assert issuer.requests == [DISCOVERY, KEYS]


def test_a_jwks_url_needs_no_discovery(issuer: TestIssuer, verifier: OidcVerifier) -> None:
    source = Issuer(url=issuer.url, documents=Documents(), jwks_url=issuer.jwks_url)

    assert replace(verifier, keys=IssuerKeys(source.read_keys)).verify(issuer.token()) is not None
    assert issuer.requests == [KEYS]


@pytest.mark.parametrize(
    "changes",
    [
        {"issuer": "https://other.example"}, {"jwks_uri": "http://issuer.example/keys"}, {"jwks_uri": "file:///keys"},
        {"jwks_uri": 7}, {"jwks_uri": "https://[/keys"},
    ],
    ids=str,
)  # fmt: skip
def test_a_configuration_of_another_issuer_or_without_https_is_refused(
    issuer: TestIssuer, changes: dict[str, Any]
) -> None:
    issuer.configuration = changes
    with pytest.raises(Unavailable, match=r"another issuer|no jwks_uri with https"):
        Issuer(url=issuer.url, documents=Documents()).read_keys()


def test_an_unknown_key_is_asked_for_at_most_once_in_a_while(
    issuer: TestIssuer, verifier: OidcVerifier, clock: Clock
) -> None:
    assert verifier.verify(issuer.token()) is not None
    issuer.keys = [public("rsa-new")]

    clock.now += PAUSE - 1
    assert verifier.verify(issuer.token("rsa-new")) is None  # read a moment ago
    clock.now += 2
    assert verifier.verify(issuer.token("rsa-new")) is not None
    assert verifier.verify(issuer.token("rsa")) is None  # rotated away
    assert issuer.requests.count(KEYS) == 2


def test_a_key_that_is_published_before_it_is_used_is_known_in_time(
    issuer: TestIssuer, verifier: OidcVerifier, clock: Clock
) -> None:
    assert verifier.verify(issuer.token()) is not None
    issuer.keys.append(public("rsa-new"))
    clock.now += FRESH + 1

    assert verifier.verify(issuer.token()) is not None
    wait_for(lambda: issuer.requests.count(KEYS) == 2, "the keys to be read again", TIMEOUT)
    wait_for(lambda: verifier.verify(issuer.token("rsa-new")), "the new key", TIMEOUT)
    assert issuer.requests.count(KEYS) == 2


def test_a_token_with_a_known_key_does_not_wait_for_a_reading(
    issuer: TestIssuer, verifier: OidcVerifier, clock: Clock
) -> None:
    assert verifier.verify(issuer.token()) is not None
    issuer.gate.clear()
    clock.now += FRESH + 1

    assert verifier.verify(issuer.token()) is not None
    assert verifier.keys._is_reading


@pytest.mark.parametrize(
    "answer",
    [(503, NEW_KEYS), (302, NEW_KEYS), (200, b"<html>"), (200, b"[]"), (200, b'{"keys": []}'), (200, b'{"keys": 7}'),
     (200, b'{"keys": [' + b" " * 600_000 + b"]}"), (200, b"[" * 100_000)],
    ids=["503", "redirect", "html", "list", "no-keys", "number", "huge", "deep"],
)  # fmt: skip
def test_known_keys_stay_valid_when_the_issuer_does_not_publish_any(
    issuer: TestIssuer,
    verifier: OidcVerifier,
    clock: Clock,
    caplog: pytest.LogCaptureFixture,
    answer: tuple[int, bytes],
) -> None:
    assert verifier.verify(issuer.token()) is not None
    issuer.status, issuer.body = answer

    for _ in range(3):
        clock.now += FRESH + 1
        assert verifier.verify(issuer.token("rsa-new")) is None
        assert verifier.verify(issuer.token()) is not None

    [warning] = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert warning.__dict__["reason"]
    issuer.status, issuer.body, issuer.keys = 200, None, [public("rsa-new")]
    clock.now += PAUSE + 1
    assert verifier.verify(issuer.token("rsa-new")) is not None


def test_a_huge_answer_is_not_read_to_its_end(issuer: TestIssuer) -> None:
    issuer.body = b'{"keys": [' + b" " * 50_000_000 + b"]}"
    with pytest.raises(Unavailable, match="larger than"):
        Documents().read(issuer.jwks_url)


def test_an_issuer_that_is_gone_is_named(issuer: TestIssuer) -> None:
    with pytest.raises(Unavailable, match=r"http://127.0.0.1:1/ cannot be read"):
        Documents().read("http://127.0.0.1:1/")


def test_an_issuer_that_hangs_blocks_one_request_and_nobody_else(
    issuer: TestIssuer, verifier: OidcVerifier, clock: Clock
) -> None:
    assert verifier.verify(issuer.token()) is not None
    issuer.keys.append(public("rsa-new"))
    issuer.gate.clear()
    issuer.asked.clear()
    clock.now += FRESH + 1

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(verifier.verify, issuer.token("rsa-new"))
        assert issuer.asked.wait(TIMEOUT)
        clock.now += FRESH + 1
        for _ in range(20):
            assert verifier.verify(issuer.token()) is not None
            assert verifier.verify(issuer.token("rsa-other")) is None
        assert not waiting.done()
        issuer.gate.set()
        assert waiting.result(TIMEOUT) is not None
    assert issuer.requests.count(DISCOVERY) == 2


def test_an_issuer_that_hangs_is_given_up(issuer: TestIssuer, verifier: OidcVerifier, clock: Clock) -> None:
    source = Issuer(url=issuer.url, documents=Documents(step=0.1))
    impatient = replace(verifier, keys=IssuerKeys(source.read_keys, clock=clock))
    issuer.gate.clear()
    assert impatient.verify(issuer.token()) is None

    issuer.gate.set()
    clock.now += PAUSE + 1
    assert impatient.verify(issuer.token()) is not None


@contextmanager
def dripping_server() -> Iterator[str]:
    """Sends a byte now and then, forever."""
    is_over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            try:
                while not is_over.wait(0.02):
                    self.wfile.write(b" ")
            except OSError:
                pass

        def log_message(self, format: str, *values: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    is_over.set()
    server.shutdown()
    server.server_close()


def test_an_answer_without_end_is_given_up() -> None:
    with dripping_server() as url, pytest.raises(Unavailable, match="did not answer within"):
        Documents(longest=0.2).read(url)
