# SPDX-License-Identifier: Apache-2.0
"""Clock, metrics and ids."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from lakehand.core.ports.plugins import PluginReport
from lakehand.domain.operations import (
    Handle,
    Operation,
)
from lakehand.domain.tables import Format


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
        """Pending → accepted by an engine."""

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


class IdSource(Protocol):
    def handle(self, operation: Operation) -> Handle:
        """A fresh, never repeated handle for the next attempt of an operation."""

    def random(self) -> float:
        """A number in [0, 1), for jitter."""
