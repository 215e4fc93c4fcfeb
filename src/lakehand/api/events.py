# SPDX-License-Identifier: Apache-2.0
"""Requests and answers about events."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakehand.api.fields import ID, Answer, Document, Moment, Name, Paging, about, answer

if TYPE_CHECKING:
    from lakehand.domain.events import StoredEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class EventQuery(Paging):
    table: int | None = field(default=None, metadata=about(**ID))
    operation: int | None = field(default=None, metadata=about(**ID))
    kind: Name | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventAnswer(Answer):
    # Equal problems are one event that is counted: each time, ``at`` and ``times`` change.

    id: int
    kind: str
    message: str
    table: int | None
    operation: int | None
    detail: Document
    at: Moment = field(metadata=about("When it last happened."))
    first_at: Moment
    times: int


def event_answer(stored: "StoredEvent") -> EventAnswer:
    return answer(EventAnswer, stored.event, stored)
