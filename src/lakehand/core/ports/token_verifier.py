# SPDX-License-Identifier: Apache-2.0
"""The port for tokens that somebody else issues: who is behind one, and until when."""

from dataclasses import dataclass
from typing import Protocol

from lakehand.domain.access import Caller


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """A token that is valid now."""

    caller: Caller
    ends_at: float  # seconds since the epoch


class TokenVerifier(Protocol):
    @property
    def is_on(self) -> bool:
        """False if no issuer is configured: then no token is ever verified."""

    def verify(self, text: str) -> Verified | None:
        """The caller of a token; None if it is not valid. Never raises.

        It may wait some seconds for the issuer's keys, so it must not be called on an event loop.
        """


class NoVerifier:
    """No issuer is configured."""

    is_on = False

    def verify(self, text: str) -> Verified | None:
        return None
