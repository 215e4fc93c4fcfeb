# SPDX-License-Identifier: Apache-2.0
"""What the REST API is given: services, secrets, and callbacks for metrics. It builds none of it itself."""

import hmac
from collections.abc import Callable
from dataclasses import dataclass, field

from lakehand.core.intake.commit_events import CommitIntake
from lakehand.core.intake.notifications import Intake
from lakehand.core.services.services import Services
from lakehand.rest.refusals import Hosts, Refusals

KIBIBYTE = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """Secrets of writers, and bounds of the API. No secret is ever shown: not in answers, events, logs, nor here."""

    wire_token: str = field(default="", repr=False)  # ?token= of Hudi's client; empty: not asked for
    callback_key: str = field(default="", repr=False)  # the callback's key header; empty: not asked for
    max_body: int = 64 * KIBIBYTE
    max_commits_body: int = KIBIBYTE * KIBIBYTE
    max_callback_body: int = 16 * KIBIBYTE * KIBIBYTE
    hosts: Hosts = field(default_factory=Hosts)  # the names that requests may use for this service

    def admits_wire(self, token: str) -> bool:
        return not self.wire_token or same(self.wire_token, token)

    def admits_callback(self, key: str, token: str) -> bool:
        """Either secret is enough; if none is configured, none is needed."""
        if not self.callback_key and not self.wire_token:
            return True
        by_key = bool(self.callback_key) and same(self.callback_key, key)
        by_token = bool(self.wire_token) and same(self.wire_token, token)
        return by_key or by_token


def same(secret: str, given: str) -> bool:
    return hmac.compare_digest(secret.encode(), given.encode("utf-8", "replace"))


def no_metrics(*_values: object) -> None:
    """The default: nothing is counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiContext:
    """What every route can reach."""

    services: Services
    intake: Intake
    commits: CommitIntake
    metrics_text: Callable[[], tuple[bytes, str]]  # body and content type
    security: Security
    on_request: Callable[[str, str, int, float], None] = no_metrics  # route, method, status, seconds
    on_notifications: Callable[[str, str, int], None] = no_metrics  # source, outcome, how many
    refusals: Refusals = field(default_factory=lambda: Refusals(no_metrics))
    wire_timeout: float = 2.0  # seconds that a Hudi writer waits for the database, at most
    commits_timeout: float = 5.0  # the same for a sender of commit events

    @property
    def engines(self) -> frozenset[str]:
        return frozenset(
            p.name for p in self.services.plugins() if p.kind == "engine" and p.state not in ("off", "broken")
        )
