# SPDX-License-Identifier: Apache-2.0
"""Which tokens are valid: signature, algorithm, issuer, audience, times. Forged ones are refused, and never raise."""

import base64
import hashlib
import hmac
import json
import logging
import time
from datetime import datetime, timezone
from typing import Any, cast

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm

from lakehand.core.ports import NoVerifier, TokenVerifier
from lakehand.domain.access import Role
from lakehand.oidc import OidcVerifier, looks_like_jwt
from tests.oidc.issuers import TestIssuer, key, public


def part(document: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(document).encode()).rstrip(b"=").decode()


@pytest.mark.parametrize(("name", "algorithm"), [("rsa", "RS256"), ("ec", "ES256")])
def test_a_token_of_the_issuer_names_its_caller_and_its_end(
    issuer: TestIssuer, verifier: OidcVerifier, name: str, algorithm: str
) -> None:
    end = int(time.time()) + 100

    verified = verifier.verify(issuer.token(name, algorithm, exp=end))

    assert verified is not None
    assert (verified.caller.name, verified.caller.role, verified.caller.owner) == ("ada", Role.OPERATOR, "")
    assert verified.ends_at == end


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": time.time() - 60}, {"exp": None}, {"exp": "soon"}, {"exp": float("inf")}, {"nbf": time.time() + 3600},
        {"iat": time.time() + 3600}, {"aud": "someone-else"}, {"aud": None}, {"aud": []},
        {"iss": "https://issuer.example"}, {"iss": None}, {"sub": 7},
    ],
    ids=[
        "expired", "no end", "an odd end", "endless", "not valid yet", "issued later", "another audience",
        "no audience", "no audiences", "another issuer", "no issuer", "an odd subject",
    ],
)  # fmt: skip
def test_a_token_with_a_wrong_claim_is_refused(
    issuer: TestIssuer, verifier: OidcVerifier, claims: dict[str, Any]
) -> None:
    whole = issuer.claims(**claims)
    header = {"alg": "RS256", "kid": "rsa"}
    signed = jwt.api_jws.encode(json.dumps(whole).encode(), key("rsa"), "RS256", headers=header)

    assert verifier.verify(issuer.token()) is not None
    assert verifier.verify(signed) is None


def test_an_end_is_never_later_than_a_date_can_be(issuer: TestIssuer, verifier: OidcVerifier) -> None:
    verified = verifier.verify(issuer.token(exp=10**30))
    assert verified is not None
    assert datetime.fromtimestamp(verified.ends_at, timezone.utc).year == 9999


def test_clocks_may_differ_a_little(issuer: TestIssuer, verifier: OidcVerifier) -> None:
    now = time.time()
    assert verifier.verify(issuer.token(exp=int(now) - 5, nbf=int(now) + 5, iat=int(now) + 5)) is not None


def test_one_of_several_audiences_is_enough(issuer: TestIssuer, verifier: OidcVerifier) -> None:
    assert verifier.verify(issuer.token(aud=["account", "other"])) is not None


def test_a_token_that_another_key_has_signed_is_refused(issuer: TestIssuer, verifier: OidcVerifier) -> None:
    assert verifier.verify(issuer.token("rsa-of-somebody", kid="rsa")) is None


def test_a_token_that_was_changed_is_refused(issuer: TestIssuer, verifier: OidcVerifier) -> None:
    head, _, signature = issuer.token().split(".")
    assert verifier.verify(f"{head}.{part(issuer.claims(roles=['lake-admins']))}.{signature}") is None


@pytest.mark.parametrize("name", ["none", "None", "NONE"])
@pytest.mark.parametrize("signature", ["", "AA"])
def test_a_token_without_a_signature_is_refused(
    issuer: TestIssuer, verifier: OidcVerifier, name: str, signature: str
) -> None:
    forged = f"{part({'alg': name, 'kid': 'rsa'})}.{part(issuer.claims())}.{signature}"
    assert verifier.verify(forged) is None


@pytest.mark.parametrize("algorithms", [("RS256",), ("RS256", "HS256")])
def test_a_public_key_is_no_shared_secret(
    issuer: TestIssuer, verifier: OidcVerifier, algorithms: tuple[str, ...]
) -> None:
    """HS256 with the published key as the secret, even if the settings were wrong."""
    open_to_more = OidcVerifier(
        issuer=verifier.issuer, audience=verifier.audience, algorithms=algorithms, keys=verifier.keys,
        rules=verifier.rules,
    )  # fmt: skip
    pem = key("rsa").public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    signing = f"{part({'alg': 'HS256', 'kid': 'rsa'})}.{part(issuer.claims())}"
    digest = hmac.new(pem, signing.encode(), hashlib.sha256).digest()
    forged = f"{signing}.{base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"

    assert open_to_more.verify(issuer.token()) is not None
    assert open_to_more.verify(forged) is None


def test_an_algorithm_that_is_not_in_the_settings_is_refused(issuer: TestIssuer, verifier: OidcVerifier) -> None:
    assert verifier.verify(issuer.token(algorithm="RS512")) is None


def test_a_key_is_used_with_its_own_algorithm_only(issuer: TestIssuer, verifier: OidcVerifier) -> None:
    issuer.keys = [public("rsa", alg="RS512")]
    assert verifier.verify(issuer.token()) is None


@pytest.mark.parametrize(
    "published",
    [
        public("short-rsa"), public("rsa", use="enc"), public("rsa", kty="oct", k="c2VjcmV0"),
        public("rsa", d="AQAB"), public("rsa", n=7), public("rsa", kty="EC"), "rsa",
    ],
    ids=["short", "for-encryption", "shared", "private", "malformed", "other-type", "text"],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:The RSA key is 1024 bits")
def test_a_key_that_is_not_fit_verifies_nothing(issuer: TestIssuer, verifier: OidcVerifier, published: Any) -> None:
    name = published["kid"] if isinstance(published, dict) else "rsa"
    issuer.keys = [public("ec"), published]

    assert verifier.verify(issuer.token(name)) is None
    assert verifier.verify(issuer.token("ec", "ES256")) is not None


def test_a_key_of_another_curve_verifies_nothing(issuer: TestIssuer, verifier: OidcVerifier) -> None:
    issuer.keys = [public("ec"), public("ec384")]
    signing = f"{part({'alg': 'ES256', 'kid': 'ec384'})}.{part(issuer.claims())}"
    signature = ECAlgorithm(ECAlgorithm.SHA256).sign(signing.encode(), cast(EllipticCurvePrivateKey, key("ec384")))
    forged = f"{signing}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"

    assert verifier.verify(forged) is None
    assert verifier.verify(issuer.token("ec", "ES256")) is not None


def test_a_token_that_names_no_key_is_verified_with_the_only_one_that_fits(
    issuer: TestIssuer, verifier: OidcVerifier
) -> None:
    assert verifier.verify(issuer.token(kid=None)) is not None


def test_a_token_that_names_no_key_is_refused_if_several_fit(issuer: TestIssuer, verifier: OidcVerifier) -> None:
    issuer.keys = [public("rsa"), public("rsa-2")]
    assert verifier.verify(issuer.token(kid=None)) is None


@pytest.mark.parametrize(
    "header",
    [
        {"alg": "RS256", "kid": 7}, {"alg": ["RS256"], "kid": "rsa"}, {"alg": "RS256", "kid": "rsa", "crit": ["x"]},
        {"kid": "rsa"}, ["RS256"], "x" * 100,
    ],
    ids=str,
)  # fmt: skip
def test_an_odd_header_is_refused(issuer: TestIssuer, verifier: OidcVerifier, header: object) -> None:
    _, payload, signature = issuer.token().split(".")
    assert verifier.verify(f"{part(header)}.{payload}.{signature}") is None


def test_an_ordinary_token_causes_no_work(issuer: TestIssuer, verifier: OidcVerifier) -> None:
    token = issuer.token()
    texts = ["", "5b7e0c1f9a3d42e8", "a.b", "a.b.c.d", "a..c", f"{token}\n", f" {token}", "a.b.ü", f"a.b.{'c' * 20000}"]

    assert [looks_like_jwt(text) for text in texts] == [False] * len(texts)
    assert [verifier.verify(text) for text in texts] == [None] * len(texts)
    assert issuer.requests == []
    assert looks_like_jwt(token)


def test_a_token_that_is_too_long_is_refused(issuer: TestIssuer, verifier: OidcVerifier) -> None:
    assert verifier.verify(issuer.token(groups=["x" * 5_000])) is not None
    assert verifier.verify(issuer.token(groups=["x" * 10_000])) is None


def test_the_reason_of_a_refusal_is_logged_without_the_token(
    issuer: TestIssuer, verifier: OidcVerifier, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="lakehand")
    token = issuer.token(exp=1)

    assert verifier.verify(token) is None

    [record] = [record for record in caplog.records if record.levelno == logging.DEBUG]
    assert record.__dict__["reason"] == "ExpiredSignatureError"
    assert not any(piece in str(record.__dict__) for piece in token.split("."))


def test_without_an_issuer_no_token_is_verified() -> None:
    none: TokenVerifier = NoVerifier()
    assert (none.is_on, none.verify("a.b.c")) == (False, None)
