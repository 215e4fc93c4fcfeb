# SPDX-License-Identifier: Apache-2.0
"""A service that trusts an identity provider, over TLS: who gets in, as whom, and who does not."""

import json
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import trustme

from tests.kit.service import RunningService
from tests.oidc.issuers import AUDIENCE, TestIssuer, serve_issuer
from tests.oidc.test_verifier import part

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def issuer() -> Iterator[TestIssuer]:
    with serve_issuer() as served:
        yield served


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory, issuer: TestIssuer) -> Iterator[httpx.Client]:
    home, ca = tmp_path_factory.mktemp("oidc"), trustme.CA()
    home.chmod(0o700)
    pair = ca.issue_cert("127.0.0.1")
    pair.cert_chain_pems[0].write_to_path(home / "cert.pem")
    pair.private_key_pem.write_to_path(home / "key.pem")
    (home / "key.pem").chmod(0o600)
    service = RunningService(
        home, Path(tmp_path_factory.mktemp("lake")), spark__master="no-such-master", no_proxy="*",
        oidc__issuer=issuer.url, oidc__audience=AUDIENCE,
        oidc__roles=json.dumps({"lake-operators": "operator", "lake-viewers": "viewer"}),
        tls_certificate=str(home / "cert.pem"), tls_key=str(home / "key.pem"),
    )  # fmt: skip
    trusted = ssl.create_default_context()
    ca.configure_trust(trusted)
    try:
        service.start()
        headers = {"Content-Type": "application/json"}
        with httpx.Client(base_url=service.url, verify=trusted, headers=headers, timeout=30) as made:
            yield made
    finally:
        service.end()


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_the_role_comes_from_the_claims(client: httpx.Client, issuer: TestIssuer) -> None:
    assert client.base_url.scheme == "https"
    operator = client.get("/api/v1/caller", headers=bearer(issuer.token()))
    viewer = bearer(issuer.token(roles=["lake-viewers"]))

    assert (operator.json()["name"], operator.json()["role"]) == ("ada", "operator")
    assert client.get("/api/v1/caller", headers=viewer).json()["role"] == "viewer"
    assert client.post("/api/v1/alerts/test", headers=viewer).status_code == 403
    assert client.get("/api/v1/tokens", headers=bearer(issuer.token())).status_code == 403


def test_tokens_that_prove_nothing_are_refused(client: httpx.Client, issuer: TestIssuer) -> None:
    forged = f"{part({'alg': 'none', 'kid': 'rsa'})}.{part(issuer.claims())}."
    wrong = {
        "expired": issuer.token(exp=time.time() - 3600),
        "wrong audience": issuer.token(aud="someone-else"),
        "wrong issuer": issuer.token(iss="https://elsewhere.example"),
        "wrongly signed": issuer.token("other", kid="rsa"),
        "alg none": forged,
        "no role": issuer.token(roles=["cooks"]),
        "changed": issuer.token()[:-8] + "AAAAAAAA",
    }
    answers = {why: client.get("/api/v1/tables", headers=bearer(token)).status_code for why, token in wrong.items()}

    assert set(answers.values()) == {401}, answers
    assert client.get("/api/v1/tables", headers=bearer(issuer.token())).status_code == 200


def test_the_dashboard_takes_the_same_token_and_keeps_a_secure_cookie(client: httpx.Client, issuer: TestIssuer) -> None:
    headers = {
        "Origin": str(client.base_url).rstrip("/"), "Sec-Fetch-Site": "same-origin",
        "Content-Type": "application/x-www-form-urlencoded",
    }  # fmt: skip

    signed = client.post("/sign-in", content=f"token={issuer.token()}", headers=headers)

    assert signed.status_code == 303
    assert "secure" in signed.headers["set-cookie"].lower()
    assert "ada · operator" in client.get("/tables").text
    [entry] = client.get("/api/v1/audit", params={"action": "session.start"}, headers=bearer(issuer.token())).json()[
        "items"
    ]
    assert (entry["caller"], entry["role"], entry["via"]) == ("ada", "operator", "dashboard")
