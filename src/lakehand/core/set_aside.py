# SPDX-License-Identifier: Apache-2.0
"""Tables at which calls into a plugin hang: each is set aside by itself, longer each time, and its format is not."""

import time
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone

from lakehand.domain.errors import PluginStuck

FIRST_REST, LONGEST_REST = 60.0, 3600.0  # seconds without a call after one hung; twice as long each time


@dataclass(slots=True, kw_only=True)
class Aside:
    """One table that is not asked about."""

    method: str
    why: str
    since: str
    times: int = 0
    until: float = 0.0  # on the monotonic clock
    calls: set[object] = field(default_factory=set)  # those that have not come back


@dataclass(slots=True)
class TablesAside:
    """By location. Not safe to share between threads: the plugin's health has the lock."""

    _tables: dict[str, Aside] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._tables)

    @property
    def hanging(self) -> int:
        """At how many different tables a call hangs now."""
        return sum(bool(one.calls) for one in self._tables.values())

    def refusal(self, plugin: str, method: str, table: str) -> PluginStuck | None:
        """Why the plugin is not asked about this table now; None when it may be."""
        one = self._tables.get(table)
        left = one.until - time.monotonic() if one else 0.0
        if one is None or (left <= 0 and not one.calls):
            return None
        left = max(left, FIRST_REST) if one.calls else left
        when = f"it is tried again at {utc(left)}" + (" if that call has ended by then" if one.calls else "")
        why = f"{plugin} is not asked to {method} {table}: set aside since {one.since}, {one.why}; {when}"
        return PluginStuck(why, again=timedelta(seconds=left))

    def hung(self, call: object, method: str, table: str, why: str) -> None:
        one = self._tables.setdefault(table, Aside(method=method, why=why, since=utc()))
        one.method, one.why, one.times = method, why, one.times + 1
        one.calls.add(call)
        one.until = time.monotonic() + min(FIRST_REST * 2 ** min(one.times - 1, 10), LONGEST_REST)

    def came_back(self, call: object, table: str) -> None:
        one = self._tables.get(table)
        if one is not None:
            one.calls.discard(call)

    def answered(self, method: str, table: str) -> None:
        """The call that had hung came back in time: the table is as good as any other."""
        one = self._tables.get(table)
        if one is not None and one.method == method and not one.calls:
            del self._tables[table]


def utc(seconds: float = 0.0) -> str:
    return f"{datetime.now(timezone.utc) + timedelta(seconds=seconds):%H:%M:%S} UTC"


def set_aside(why: str) -> str:
    """What a table says while a thread hangs at it: no second one is sent."""
    return f"set aside since {utc()}: {why}; it is tried again when that call has ended"
