# SPDX-License-Identifier: Apache-2.0
"""A call as data: a generator of requests to send and times to wait, which a runner does, blocking or not."""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar
from urllib.parse import quote

from lakehand.api.fields import PageAnswer
from lakehand.client import Parameters, given
from lakehand.client.answers import read
from lakehand.client.outcomes import Outcome

T = TypeVar("T")
PAGE = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Request(Generic[T]):
    method: str
    route: str  # as the API lists it: /api/v1/tables/{id}
    answer: type[T]
    values: Mapping[str, object] = field(default_factory=dict)  # of the route's parameters
    parameters: Parameters = field(default_factory=dict)
    body: Parameters | Sequence[Parameters] | None = None
    is_repeatable: bool = False  # sent twice, it does what it does once

    @property
    def path(self) -> str:
        quoted = {name: quote(str(value), safe="") for name, value in self.values.items()}
        return self.route.format(**quoted) if quoted else self.route


@dataclass(frozen=True, slots=True)
class Sleep:
    seconds: float


@dataclass(frozen=True, slots=True)
class Items(Generic[T]):
    """What an iterator yields next."""

    items: Sequence[T]


Steps: TypeAlias = Generator[Request[Any] | Sleep, Any, T]  # ends with the answer
ItemSteps: TypeAlias = Generator[Request[Any] | Sleep | Items[T], Any, None]


def get(route: str, answer: type[T], parameters: Parameters | None = None, **values: object) -> Request[T]:
    parameters = given(parameters or {})
    return Request(method="GET", route=route, answer=answer, values=values, parameters=parameters, is_repeatable=True)


def post(
    route: str, answer: type[T], body: Parameters | None = None, *, is_repeatable: bool = False, **values: object
) -> Request[T]:
    body = given(body or {})
    return Request(method="POST", route=route, answer=answer, values=values, body=body, is_repeatable=is_repeatable)


def send(request: Request[T]) -> Steps[T]:
    outcome = yield from send_for_outcome(request)
    return read(request.answer, outcome.document())


def send_for_outcome(request: Request[Any]) -> Steps[Outcome]:
    """Send it until it succeeds, as far as repeating it is safe; raises what went wrong at last."""
    attempt = 1
    while True:
        outcome: Outcome = yield request
        if outcome.is_success:
            return outcome
        delay = outcome.retries.delay(attempt, outcome.retry_after) if may_repeat(request, outcome) else None
        if delay is None:
            raise outcome.error()
        yield Sleep(delay)
        attempt += 1


def may_repeat(request: Request[Any], outcome: Outcome) -> bool:
    """A 503 is not a promise that nothing was stored: the database may have gone away during the commit."""
    return not outcome.was_sent or (request.is_repeatable and outcome.is_outage)


def send_for_pages(
    route: str, answer: type[PageAnswer[T]], parameters: Parameters, limit: int | None = None
) -> ItemSteps[T]:
    """All items of a list, or the first of them; each page is read when it is needed."""
    cursor: str | None = None
    left = limit
    while left is None or left > 0:
        size = PAGE if left is None else min(left, PAGE)
        page = yield from send(get(route, answer, {**parameters, "limit": size, "cursor": cursor}))
        yield Items(page.items)
        left = None if left is None else left - len(page.items)
        cursor = page.next
        if cursor is None:
            return
