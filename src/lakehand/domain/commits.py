# SPDX-License-Identifier: Apache-2.0
"""Commit events: what catalogs, object stores and programs report about tables, and what became of each report."""

from dataclasses import dataclass

from lakehand.domain.actions import Action
from lakehand.domain.tables import TableId
from lakehand.domain.words import Word


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
