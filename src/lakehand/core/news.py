# SPDX-License-Identifier: Apache-2.0
"""News of a table: actions that follow its changes become due, many tables in a few statements."""

from collections.abc import Iterable
from datetime import datetime

from lakehand.core.ports import Schedules
from lakehand.domain.actions import Action
from lakehand.domain.tables import TableId


def tell(schedules: Schedules, news: Iterable[tuple[Action, TableId]], now: datetime) -> bool:
    """Whether there was anybody to tell."""
    tables: dict[Action, list[TableId]] = {}
    for action, table in news:
        tables.setdefault(action, []).append(table)
    for action in sorted(tables):
        schedules.wake(tables[action], now=now, action=action)
    return bool(tables)
