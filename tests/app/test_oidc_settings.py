# SPDX-License-Identifier: Apache-2.0
"""The settings of an issuer: what is accepted, what stops the start, and the verifier that they make."""

from pathlib import Path

import pytest
import trustme

from lakehand.app.settings import Settings, load
from lakehand.app.wiring import build_verifier
from lakehand.domain.access import Role
from lakehand.domain.errors import Invalid
from tests.kit.polling import wait_for
from tests.oidc.issuers import AUDIENCE, serve_issuer

TIMEOUT = 30.0  # seconds
LEAST = 'issuer = "https://login.example"\naudience = "lakehand"\ndefault-role = "viewer"\n'


def read(tmp_path: Path, text: str) -> Settings:
    file = tmp_path / "lakehand.toml"
    file.write_text(f"[oidc]\n{text}", encoding="utf-8")
    file.chmod(0o600)
    return load({"home": tmp_path / "home"}, file)


def test_an_issuer_is_read_and_roles_keep_their_spelling(tmp_path: Path) -> None:
    text = f"""
        {LEAST}
        roles-claim = "realm_access.roles"
        [oidc.roles]
        data-platform-admins = "admin"
        "Lake Users" = "viewer"
    """

    oidc = read(tmp_path, text).oidc

    assert oidc.roles == {"data-platform-admins": "admin", "Lake Users": "viewer"}
    assert (oidc.audience, oidc.roles_claim, oidc.algorithms) == (
        ["lakehand"],
        "realm_access.roles",
        ["RS256", "ES256"],
    )


def test_an_issuer_can_come_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEHAND_OIDC__ISSUER", "https://login.example")
    monkeypatch.setenv("LAKEHAND_OIDC__AUDIENCE", "lakehand, other")
    monkeypatch.setenv("LAKEHAND_OIDC__ALGORITHMS", "ES256")
    monkeypatch.setenv("LAKEHAND_OIDC__ROLES", '{"lake-admins": "admin"}')

    oidc = load({"home": tmp_path / "home"}).oidc

    assert (oidc.audience, oidc.algorithms, oidc.roles) == (["lakehand", "other"], ["ES256"], {"lake-admins": "admin"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('audience = "x"', "issuer is missing"),
        ('issuer = "http://login.example"', "issuer must be a URL with https"),
        ('issuer = "login.example"', "issuer must be a URL with https"),
        (LEAST + 'jwks-url = "http://login.example/keys"', "jwks_url must be a URL with https"),
        ('issuer = "https://login.example"\ndefault-role = "viewer"', "audience is missing"),
        ('issuer = "https://login.example"\naudience = "x"', "no role is given to anybody"),
        (LEAST + 'algorithms = ["HS256"]', "'HS256' is not accepted"),
        (LEAST + 'algorithms = ["RS256", "none"]', "'none' is not accepted"),
        (LEAST + "algorithms = []", "oidc.algorithms"),
        (LEAST + 'name-claim = ""', "oidc.name_claim"),
        (LEAST + 'roles = { staff = "owner" }', "oidc.roles.staff"),
        (LEAST + "leeway = 3", "oidc.leeway"),
    ],
)
def test_settings_that_nobody_could_use_or_that_are_unsafe_stop_the_start(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(Invalid, match=message):
        read(tmp_path, text)


@pytest.mark.parametrize("issuer", ["http://localhost:8080/realms/lake", "http://127.0.0.1:1", "http://[::1]:1"])
def test_an_issuer_on_this_machine_needs_no_https(tmp_path: Path, issuer: str) -> None:
    assert read(tmp_path, LEAST.replace("https://login.example", issuer)).oidc.issuer == issuer


def test_without_an_issuer_there_is_no_verifier(tmp_path: Path) -> None:
    assert not build_verifier(load({"home": tmp_path / "home"})).is_on


def test_a_verifier_is_built_from_the_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "*")
    with serve_issuer() as issuer:
        text = f"""
            issuer = "{issuer.url}"
            audience = "{AUDIENCE}"
            roles-claim = "groups"
            name-claim = "upn"
            owner-claim = "team"
            [oidc.roles]
            lake = "operator"
        """
        verifier = build_verifier(read(tmp_path, text))
        assert issuer.asked.wait(TIMEOUT)  # before anybody has sent a token

        token = issuer.token(groups=["lake"], upn="ada@lake", team="sales")
        verified = wait_for(lambda: verifier.verify(token), "the keys", TIMEOUT)

        assert verifier.is_on
        caller = verified.caller
        assert (caller.name, caller.role, caller.owner) == ("ada@lake", Role.OPERATOR, "sales")
        assert verifier.verify(issuer.token(groups=["lake"], upn="Coordinator", team="sales")) is None
        assert issuer.requests == ["/.well-known/openid-configuration", "/keys"]


def test_a_ca_file_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    settings = read(tmp_path, f'{LEAST}ca-file = "{file}"')
    with pytest.raises(Invalid, match=r"oidc.ca_file: .*ca.pem cannot be used \(No such file"):
        build_verifier(settings)
    file.write_text("nothing")
    with pytest.raises(Invalid, match=r"oidc.ca_file: .* must hold certificates in PEM"):
        build_verifier(settings)


def test_an_issuer_with_a_certificate_of_its_own_ca_is_trusted_with_a_ca_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "*")
    ca, roots = trustme.CA(), tmp_path / "ca.pem"
    ca.cert_pem.write_to_path(str(roots))
    with serve_issuer(ca.issue_cert("127.0.0.1")) as issuer:
        text = f'issuer = "{issuer.url}"\naudience = "{AUDIENCE}"\ndefault-role = "viewer"\n'
        trusting = build_verifier(read(tmp_path, f'{text}ca-file = "{roots}"'))
        wait_for(lambda: trusting.verify(issuer.token()), "the keys", TIMEOUT)
        asked = len(issuer.requests)

        wary = build_verifier(read(tmp_path, text))
        assert wary.verify(issuer.token()) is None
        assert len(issuer.requests) == asked
