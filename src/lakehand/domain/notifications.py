# SPDX-License-Identifier: Apache-2.0
"""Notifications: what a writer reported, and the row that it leads to. Requests are parsed into the first."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lakehand.domain.actions import Action
from lakehand.domain.events import Event
from lakehand.domain.processes import Instant, TableProcess
from lakehand.domain.tables import Format, TableSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """A writer reports a commit or pending plans. Nothing in it is trusted."""

    source: str  # "wire", "callback" or "event"
    location: str
    format: Format | None = None  # None: the format of the rules
    action: Action | None = None  # None: something was committed; evaluate the table
    instants: Sequence[str] = ()
    db_name: str = ""
    table_name: str = ""
    owner: str = "default"
    queue: str = "default"
    parameters: Mapping[str, str] = field(default_factory=dict)  # resource, parallelism
    extra_parameters: Mapping[str, str] = field(default_factory=dict)
    register: frozenset[Action] = frozenset()  # register an unknown table with these actions
    partitions: Sequence[str] = ()  # that changed
    warnings: Sequence[Event] = ()  # parts of the request that were ignored


@dataclass(frozen=True, slots=True)
class RefusedNotification:
    """Nothing is stored for it but an event."""

    message: str  # for the writer
    event: Event  # for the operator


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxRow:
    """What one notification leads to: all of it is stored in one transaction, idempotently."""

    table: TableSpec  # registered if it is missing
    is_known: bool = False  # the decision relied on the table being registered; the store raises Moved if it is not
    instants: Sequence[Instant] = ()  # one operation each, unless it exists
    process: TableProcess | None = None  # what those operations do
    partitions: Sequence[str] = ()  # added to what the next decision gets as a hint
    wake: bool = True  # make the table's schedules due
    note: Event | None = None
