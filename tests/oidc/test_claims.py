# SPDX-License-Identifier: Apache-2.0
"""What claims become: names, roles, owners. Nobody gets in without a role, and nobody gets a name of the service."""

from dataclasses import replace
from typing import Any

import pytest

from lakehand.domain.access import Caller, Role
from lakehand.domain.errors import Unauthorized
from lakehand.oidc import ClaimRules, OidcVerifier
from tests.oidc.conftest import ROLES
from tests.oidc.issuers import TestIssuer

RULES = ClaimRules(roles=ROLES, reserved=frozenset({"coordinator", "anonymous"}))
ADA = {"preferred_username": "ada", "roles": ["lake-viewers"]}


@pytest.mark.parametrize(
    ("value", "role"),
    [
        (["lake-viewers"], Role.VIEWER), (["lake-viewers", "lake-admins", "lake-operators"], Role.ADMIN),
        ("email lake-viewers lake-operators", Role.OPERATOR), (["x", 7, None, "lake-viewers"], Role.VIEWER),
    ],
)  # fmt: skip
def test_the_highest_mapped_role_counts(value: Any, role: Role) -> None:
    assert RULES.caller({**ADA, "roles": value}).role is role


@pytest.mark.parametrize("value", [None, [], ["admin"], "admin", 7, {"lake-admins": True}, [["lake-admins"]]])
def test_nobody_gets_in_without_a_mapped_role(value: Any) -> None:
    with pytest.raises(Unauthorized, match=r"\[oidc.roles\]"):
        RULES.caller({**ADA, "roles": value})


def test_a_token_without_a_mapped_role_is_refused(issuer: TestIssuer, verifier: OidcVerifier) -> None:
    assert verifier.verify(issuer.token(roles=["staff"])) is None
    assert verifier.verify(issuer.token(roles=None)) is None


def test_the_default_role_is_for_callers_without_any() -> None:
    rules = replace(RULES, default_role=Role.VIEWER)
    assert rules.caller({**ADA, "roles": []}).role is Role.VIEWER
    assert rules.caller({**ADA, "roles": ["lake-operators"]}).role is Role.OPERATOR


@pytest.mark.parametrize(
    ("path", "claims"),
    [
        ("realm_access.roles", {"realm_access": {"roles": ["lake-admins"]}}),
        ("https://lake.example/roles", {"https://lake.example/roles": ["lake-admins"]}),
        ("groups", {"groups": ["lake-admins"]}),
    ],
)
def test_roles_are_found_by_name_or_path(path: str, claims: dict[str, Any]) -> None:
    rules = replace(RULES, roles_claim=path)
    assert rules.caller({"sub": "4711", **claims}).role is Role.ADMIN
    for other in ({}, {"realm_access": "lake-admins"}, {"realm_access": ["roles"]}):
        with pytest.raises(Unauthorized):
            rules.caller({"sub": "4711", **other})


@pytest.mark.parametrize(
    ("claims", "name"),
    [
        ({"preferred_username": "ada", "email": "a@b.c", "sub": "1"}, "ada"), ({"email": "a@b.c", "sub": "1"}, "a@b.c"),
        ({"email": "a@b.c", "email_verified": False, "sub": "1"}, "1"), ({"sub": "auth0|1"}, "auth0|1"),
        ({"preferred_username": "", "sub": "1"}, "1"), ({"preferred_username": "Ada Lovelace"}, "Ada Lovelace"),
    ],
)  # fmt: skip
def test_a_name_is_the_first_of_the_usual_claims(claims: dict[str, Any], name: str) -> None:
    assert RULES.caller({**claims, "roles": ["lake-viewers"]}).name == name


def test_a_name_comes_from_its_claim_alone_if_one_is_set() -> None:
    rules = replace(RULES, name_claim="upn")
    assert rules.caller({**ADA, "upn": "ada@lake"}).name == "ada@lake"
    with pytest.raises(Unauthorized):
        rules.caller(ADA)


@pytest.mark.parametrize(
    "name",
    ["coordinator", "Coordinator", "ANONYMOUS", "ｃoordinator", "a\nb", "a\x1b[31m", "a\u202eb", "a\u200bb", " ada",
     "", 7, ["ada"], "x" * 129, "\ud800"],
)  # fmt: skip
def test_a_name_that_is_reserved_or_cannot_be_shown_is_refused(name: Any) -> None:
    with pytest.raises(Unauthorized):
        RULES.caller({"preferred_username": name, "roles": ["lake-admins"]})


def test_an_owner_comes_from_its_claim() -> None:
    rules = replace(RULES, owner_claim="lake.team")
    assert rules.caller({**ADA, "lake": {"team": "sales"}}) == Caller(name="ada", role=Role.VIEWER, owner="sales")


@pytest.mark.parametrize("owner", [None, "", 7, ["sales"], "a\nb", "x" * 251])
def test_a_caller_whose_owner_is_missing_or_odd_is_refused(owner: Any) -> None:
    rules = replace(RULES, owner_claim="team")
    claims = {**ADA, "roles": ["lake-operators"]} | ({} if owner is None else {"team": owner})
    with pytest.raises(Unauthorized, match="no owner in team"):
        rules.caller(claims)


def test_an_admin_needs_no_owner_but_is_bound_to_one_that_is_given() -> None:
    rules = replace(RULES, owner_claim="team")
    admin = {**ADA, "roles": ["lake-admins"]}
    assert rules.caller(admin).owner == ""
    assert rules.caller({**admin, "team": "sales"}).owner == "sales"
    with pytest.raises(Unauthorized):
        rules.caller({**admin, "team": ""})


def test_the_owner_of_a_token_reaches_its_caller(issuer: TestIssuer, verifier: OidcVerifier) -> None:
    bound = replace(verifier, rules=replace(verifier.rules, owner_claim="team"))
    verified = bound.verify(issuer.token(team="sales"))
    assert verified is not None
    assert verified.caller.owner == "sales"
    assert bound.verify(issuer.token()) is None
