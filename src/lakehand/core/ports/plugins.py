# SPDX-License-Identifier: Apache-2.0
"""Plugins as people see them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta


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
