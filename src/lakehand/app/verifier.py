# SPDX-License-Identifier: Apache-2.0
"""Builds the verifier of bearer tokens from the settings."""

import ssl
from pathlib import Path

from lakehand.app.setting_groups import OidcSettings
from lakehand.app.settings import Settings
from lakehand.core.ports import NoVerifier, TokenVerifier
from lakehand.domain.access import RESERVED, Role
from lakehand.domain.errors import Invalid


def build_verifier(settings: Settings) -> TokenVerifier:
    """It begins to read the issuer's keys at once, and does not wait for them."""
    return build_oidc(settings.oidc) if settings.oidc.issuer else NoVerifier()


def build_oidc(oidc: OidcSettings) -> TokenVerifier:
    from lakehand.oidc import ClaimRules, Documents, Issuer, IssuerKeys, OidcVerifier

    assert oidc.issuer is not None
    documents = Documents(verify=trust(oidc.ca_file) if oidc.ca_file else None)
    keys = IssuerKeys(Issuer(url=oidc.issuer, documents=documents, jwks_url=oidc.jwks_url or "").read_keys)
    keys.read_again()
    rules = ClaimRules(
        roles={value: Role(role) for value, role in oidc.roles.items()},
        roles_claim=oidc.roles_claim,
        name_claim=oidc.name_claim or "",
        owner_claim=oidc.owner_claim or "",
        default_role=Role(oidc.default_role) if oidc.default_role else None,
        reserved=RESERVED,
    )
    return OidcVerifier(
        issuer=oidc.issuer,
        audience=tuple(oidc.audience),
        algorithms=frozenset(oidc.algorithms),
        keys=keys,
        rules=rules,
    )


def trust(file: Path) -> ssl.SSLContext:
    """Trusts what these CAs have signed, and nothing else."""
    try:
        return ssl.create_default_context(cafile=file)
    except OSError as error:  # also if there is no certificate in it
        raise Invalid(
            f"oidc.ca_file: {file} cannot be used ({error.strerror or error}): it must hold certificates in PEM"
        ) from None
