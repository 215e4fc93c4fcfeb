# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests of tokens: an issuer, and a verifier of its tokens."""

from collections.abc import Iterator

import pytest

from lakehand.domain.access import Role
from lakehand.oidc import ClaimRules, Documents, Issuer, IssuerKeys, OidcVerifier
from tests.oidc.issuers import AUDIENCE, TestIssuer, serve_issuer

ROLES = {"lake-viewers": Role.VIEWER, "lake-operators": Role.OPERATOR, "lake-admins": Role.ADMIN}


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def issuer(monkeypatch: pytest.MonkeyPatch) -> Iterator[TestIssuer]:
    monkeypatch.setenv("NO_PROXY", "*")
    with serve_issuer() as served:
        yield served


@pytest.fixture
def verifier(issuer: TestIssuer, clock: Clock) -> OidcVerifier:
    source = Issuer(url=issuer.url, documents=Documents(step=5))
    return OidcVerifier(
        issuer=issuer.url,
        audience=(AUDIENCE, "other"),
        algorithms=("RS256", "ES256"),
        keys=IssuerKeys(source.read_keys, clock=clock),
        rules=ClaimRules(roles=ROLES, reserved=frozenset({"coordinator"})),
    )
