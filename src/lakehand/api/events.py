# SPDX-License-Identifier: Apache-2.0
"""Answers about events: what happened."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakehand.api.fields import Answer, Document, Moment, about, answer

if TYPE_CHECKING:
    from lakehand.domain.events import StoredEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class EventAnswer(Answer):
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
    return answer(EventAnswer, stored.event, stored, detail=dict(stored.event.detail))
