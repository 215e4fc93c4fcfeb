# SPDX-License-Identifier: Apache-2.0
"""What an alerter implements: sending one message about an alert to one receiver."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from lakehand.domain.processes import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertText:
    """One message as it is sent. Its text may quote a stranger's table: it is data, not markup."""

    id: str  # the same if the message is sent again, so that a receiver can drop a repetition
    kind: str  # opened, reminder, resolved, summary, test
    severity: str  # critical, warning
    title: str  # one line
    body: str  # a few lines
    facts: Mapping[str, Json] = field(default_factory=dict)  # for programs: alert, cause, table, owner, ...


class Alerter(ABC):
    """One object per receiver. ``send`` is called from several threads at once, under a deadline."""

    name: ClassVar[str]

    @abstractmethod
    def open(self, properties: Mapping[str, str]) -> None:
        """Read ``url``, ``secret`` and other properties of the receiver. Raises Invalid, without naming a secret."""

    @abstractmethod
    def send(self, text: AlertText) -> None:
        """Return when the receiver has accepted it. Raises OSError or Unavailable: it is sent again later."""

    def close(self) -> None:
        """Give connections back."""
