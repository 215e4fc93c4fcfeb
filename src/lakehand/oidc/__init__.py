# SPDX-License-Identifier: Apache-2.0
"""Bearer tokens of an OpenID Connect issuer: its keys, the checks of a token, and what its claims mean here."""

from lakehand.oidc.keys import ALGORITHMS, Documents, Issuer, IssuerKeys
from lakehand.oidc.verifier import ClaimRules, OidcVerifier, looks_like_jwt

__all__ = ["ALGORITHMS", "ClaimRules", "Documents", "Issuer", "IssuerKeys", "OidcVerifier", "looks_like_jwt"]
