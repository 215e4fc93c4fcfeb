# SPDX-License-Identifier: Apache-2.0
"""The world around core: clock, metrics, ids, rules of writers, tokens of other issuers, plugins as people see them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Generic, Protocol, TypeVar

from lakehand.domain.access import Caller
from lakehand.domain.actions import Action
from lakehand.domain.operations import Handle, Operation
from lakehand.domain.processes import Instant
from lakehand.domain.tables import Format

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[T]):
    """One page of a long list."""

    items: Sequence[T]
    next: str | None  # the cursor of the next page; None at the end


@dataclass(frozen=True, slots=True, kw_only=True)
class PairReport:
    """One action of one format as a factory does it."""

    format: str
    action: str
    interval: timedelta | None = None
    on_new_snapshot: bool = True
    parallelism: int = 0
    dry_run: bool = False
    is_used: bool = True  # False: another factory has a higher priority for it


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginReport:
    """One plugin as people see it."""

    kind: str  # "process-factory", "table-format", "engine"
    name: str
    distribution: str
    version: str
    state: str  # "on", "off", "broken"; of one that is on: "failing", "slow", "stuck"
    reason: str = ""
    priority: int = 0
    pairs: Mapping[str, list[str]] = field(default_factory=dict)  # format → actions
    strategies: tuple[PairReport, ...] = ()
    errors: int = 0  # since this process started
    hangs: int = 0  # calls that were abandoned because they missed their deadline
    last_error: str = ""
    last_error_at: datetime | None = None


class Clock(Protocol):
    def now(self) -> datetime:
        """The database's time, in UTC: all instances agree on it."""

    def estimate(self) -> datetime:
        """The last reading plus the time since then; read anew after a while. For records, never for leases."""


class Metrics(Protocol):
    """Counted by the loops and the API, never by the rules."""

    def scheduled(self, action: str, delay: timedelta) -> None:
        """Became due → pending."""

    def submitted(self, action: str, delay: timedelta) -> None:
        """An attempt could start → accepted by an engine."""

    def finished(self, operation: Operation, format: Format, run_time: timedelta) -> None:
        """An operation on a table of this format has ended."""

    def attempt_failed(self, action: str, reason: str) -> None: ...

    def lease_lost(self, action: str) -> None: ...

    def starved(self, format: Format, action: str) -> None:
        """A decision found that the action is needed, and has been kept waiting for far too long."""

    def probed(self, tables: int, changed: int) -> None: ...

    def loop(self, name: str, seconds: float, failed: bool) -> None: ...

    def queue(self, depth: Mapping[str, tuple[int, float]]) -> None:
        """Per queue: depth, and the age of the oldest in seconds."""

    def engine(self, name: str, up: bool, restarts: int) -> None: ...

    def plugins(self, reports: Sequence[PluginReport]) -> None:
        """Every plugin as it is now."""

    def alerts(self, open: Mapping[str, int]) -> None:
        """Open alerts by severity."""

    def receivers(self, names: Iterable[str]) -> None:
        """All receivers of alerts: what becomes of their messages is counted from zero."""

    def alert_message(self, receiver: str, outcome: str) -> None:
        """One message was "sent", has "failed" and is sent again, or was "given-up"."""

    def tables(self, states: Mapping[str, int]) -> None:
        """How many tables are in each state, also those without tables."""

    def database(self, seconds: float, *, is_up: bool) -> None:
        """How long a small query took, and whether the database accepts reads and writes."""

    def disk(self, free: float) -> None:
        """The free share of the disk with our home, from 0 to 1."""


class NotificationRules(Protocol):
    """What the writers of a format may send."""

    @property
    def format(self) -> Format: ...
    @property
    def first_actions(self) -> frozenset[Action]:
        """A request for one of these registers an unknown table, for these alone."""

    @property
    def options(self) -> frozenset[str]:
        """The extra parameters that are passed on."""

    def plausible_instants(self, instants: Sequence[str], now: datetime) -> Sequence[Instant]:
        """Those that are well-formed and not in the future, each once."""

    def is_value(self, text: str) -> bool:
        """True if a parameter may have this value."""


class IdSource(Protocol):
    def handle(self, operation: Operation) -> Handle:
        """A fresh, never repeated handle for the next attempt of an operation."""

    def random(self) -> float:
        """A number in [0, 1), for jitter."""


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
