# SPDX-License-Identifier: Apache-2.0
"""What is reported about tables: notifications of writers, commit events, and the partitions that events name.

Nothing in it is trusted. Requests are parsed into notifications or commit events; a notification leads to a row.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from lakehand.domain.actions import Action
from lakehand.domain.events import Event
from lakehand.domain.processes import Instant, TableProcess
from lakehand.domain.tables import Format, TableId, TableSpec
from lakehand.domain.texts import Word

MOST_NAMES = 100  # of one table; more are "many", which says nothing
LONGEST_NAME = 250  # characters
MOST_CHARACTERS = 8000  # of all names of a table: they are read and written with each event that names some
SHOWN = 3  # names in a sentence


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
    engine: str | None = None  # None: the service chooses
    retry_on_error: bool | None = None  # None: it says nothing of it
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
    engine: str | None = None  # that the writer asked for; so with queue and owner, or those of the table
    queue: str | None = None
    owner: str | None = None
    retry_on_error: bool | None = None
    partitions: Sequence[str] = ()  # added to what the next decision gets as a hint
    wake: bool = True  # make the table's schedules due
    note: Event | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitEvent:
    """A table was committed to, or an object was written that may be a commit. Nothing in it is trusted.

    The table is named by the object, by its location, or by its name.
    """

    key: str = ""  # its source and id: an event with the same key is the same event; empty: it has none
    object: str = ""  # the location of a written object
    location: str = ""
    catalog: str = ""
    db_name: str = ""
    table_name: str = ""
    format: str = ""
    partitions: tuple[str, ...] = ()  # that changed, if the event names them
    register: frozenset[Action] = frozenset()  # register an unknown table with these actions


class Outcome(Word):
    STORED = "stored"  # durable: the schedules of the table are due
    IGNORED = "ignored"  # it says nothing new
    WAITING = "waiting"  # the table is registered as soon as its catalog is read
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitResult:
    """What became of one event."""

    outcome: Outcome
    reason: str = ""  # the same for many events
    example: str = ""  # the location or name of this one
    table: TableId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedPartitions:
    """What events named since a decision last used it."""

    names: tuple[str, ...] = ()  # each once, the first named first
    is_many: bool = False  # too many to be kept: then there are no names
    version: int = 0  # of what is stored: it grows with each event, and when a decision has used it

    def with_names(self, more: Iterable[str]) -> "ChangedPartitions":
        names = tuple(dict.fromkeys((*self.names, *more)))
        is_many = self.is_many or not are_few(names)
        return ChangedPartitions(names=() if is_many else names, is_many=is_many, version=self.version)

    @property
    def text(self) -> str:
        """As a part of a sentence; empty if there is nothing to say."""
        if self.is_many:
            return f"events named more than {MOST_NAMES} partitions, or long names"
        if not self.names:
            return ""
        return f"events named {len(self.names)} partition{'s' if len(self.names) > 1 else ''}: {shown(self.names)}"


def are_few(names: tuple[str, ...]) -> bool:
    """True if they can be kept: not many, and each of them a plain text."""
    is_short = len(names) <= MOST_NAMES and sum(map(len, names)) <= MOST_CHARACTERS
    return is_short and all(len(name) <= LONGEST_NAME and name.isprintable() for name in names)


def shown(names: tuple[str, ...]) -> str:
    return ", ".join(names[:SHOWN]) + (", ..." if len(names) > SHOWN else "")
