# SPDX-License-Identifier: Apache-2.0
"""The port to whoever else issues tokens: an identity provider."""

from dataclasses import dataclass
from typing import Protocol

from lakehand.domain.access import Caller


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """A token that was accepted."""

    caller: Caller
    ends_at: float  # seconds since 1970


class TokenVerifier(Protocol):
    @property
    def is_on(self) -> bool: ...

    def verify(self, text: str) -> Verified | None:
        """Whose token this is; None if it is not accepted. Raises nothing."""


class NoVerifier:
    is_on = False

    def verify(self, text: str) -> Verified | None:
        return None
