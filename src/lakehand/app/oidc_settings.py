# SPDX-License-Identifier: Apache-2.0
"""The settings of the issuer whose bearer tokens are accepted."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, Field

from lakehand.app.setting_types import Words, setting

RoleName = Literal["viewer", "operator", "admin"]


def known_algorithms(names: list[str]) -> list[str]:
    from lakehand.oidc import ALGORITHMS  # takes a tenth of a second

    if unknown := [name for name in names if name not in ALGORITHMS]:
        raise ValueError(
            f"{unknown[0]!r} is not accepted: it is unknown, or has no public key; use {', '.join(ALGORITHMS)}"
        )
    return names


class OidcSettings(BaseModel, extra="forbid"):
    issuer: str | None = setting(None, "URL of the issuer, as its tokens name it. Without it, no such token is valid.")
    audience: Words = setting([], "Audiences of this service: a token must be for one of them.")
    jwks_url: str | None = setting(None, "URL of the issuer's keys. Default: its configuration names it.")
    algorithms: Annotated[Words, AfterValidator(known_algorithms), Field(min_length=1)] = setting(
        ["RS256", "ES256"], "Algorithms of signatures that are accepted."
    )
    roles: dict[str, RoleName] = setting({}, "Roles here by value of the claim: `[oidc.roles]`.")
    roles_claim: str = setting("roles", "Claim with the caller's roles, or the path to it.", min_length=1)
    name_claim: str | None = setting(None, "Claim with the caller's name.", min_length=1)
    owner_claim: str | None = setting(
        None, "Claim with the owner whose tables the caller may touch. Default: those of all.", min_length=1
    )
    default_role: RoleName | None = setting(None, "Role of callers without any of `roles`. Default: no access.")
    ca_file: Annotated[Path, AfterValidator(lambda path: path.expanduser().absolute())] | None = setting(
        None, "Certificates of the CAs that the issuer's certificate may be signed by. Default: those of the system."
    )


def read_oidc(oidc: OidcSettings) -> OidcSettings:
    """Raises ValueError if nobody could ever sign in, or keys would be read from where anybody may exchange them."""
    if oidc.issuer is None:
        if oidc.model_fields_set - {"issuer"}:
            raise ValueError("issuer is missing: give the URL that is in the tokens' iss")
        return oidc
    from lakehand.oidc.keys import is_safe  # takes a tenth of a second

    for name, url in (("issuer", oidc.issuer), ("jwks_url", oidc.jwks_url)):
        if url is not None and not is_safe(url):
            raise ValueError(f"{name} must be a URL with https; http is only for this machine")
    if not oidc.audience:
        raise ValueError("audience is missing: give the audience that the issuer puts into tokens for this service")
    if not oidc.roles and oidc.default_role is None:
        raise ValueError("no role is given to anybody: write [oidc.roles], or set default_role")
    return oidc
