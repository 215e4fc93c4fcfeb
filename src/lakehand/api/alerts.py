# SPDX-License-Identifier: Apache-2.0
"""Requests and answers about alerts. Addresses and secrets of receivers are never shown."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from lakehand.api.fields import STRICT, Answer, Moment, Name, Paging, about, answer

if TYPE_CHECKING:
    from lakehand.domain.alerts import Alert


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertQuery(Paging):
    state: Literal["open", "all"] = field(default="open", metadata=about("`all`: resolved ones, too."))


@dataclass(frozen=True, slots=True, kw_only=True)
class SilenceRequest:
    __pydantic_config__ = STRICT

    duration: float = field(
        metadata=about("For how many seconds.", ge=1, le=30 * 86400, allow_inf_nan=False, examples=[600])
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TestRequest:
    __test__ = False  # pytest collects classes of this name
    __pydantic_config__ = STRICT

    receiver: Name | None = field(default=None, metadata=about("Default: all receivers."))


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertAnswer(Answer):
    id: int
    kind: str = field(metadata=about(examples=["operation-failed"]))
    severity: Literal["critical", "warning"]
    title: str
    message: str
    key: str = field(metadata=about("The cause: at most one open alert has it."))
    table: int | None
    operation: int | None
    owner: str
    queue: str
    format: str
    instance: str = field(metadata=about("The instance that alone can see it; empty: all can."))
    opened_at: Moment
    last_seen: Moment
    resolved_at: Moment | None
    count: int = field(metadata=about("How many occurrences were seen."))
    silenced_until: Moment | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TestAnswer(Answer):
    __test__ = False

    receiver: str
    sent: bool
    problem: str = field(metadata=about("Why it was not sent; empty if it was."))


@dataclass(frozen=True, slots=True, kw_only=True)
class TestsAnswer(Answer):
    __test__ = False

    items: list[TestAnswer]


def alert_answer(alert: "Alert") -> AlertAnswer:
    return answer(AlertAnswer, alert.cause, alert)
