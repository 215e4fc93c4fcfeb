# SPDX-License-Identifier: Apache-2.0
"""Requests and answers about the service itself: version, plugins, instances, and draining one."""

from dataclasses import dataclass, field

from lakehand.api.fields import STRICT, Answer, Document, Moment, about

LONGEST_DRAIN = 366 * 86400  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainRequest:
    __pydantic_config__ = STRICT

    timeout: float | None = field(
        default=None,
        metadata=about(
            "Stop running work after so many seconds and hand it over. Without it, it may finish.",
            ge=0, le=LONGEST_DRAIN, allow_inf_nan=False,
        ),
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionAnswer(Answer):
    name: str = "lakehand"
    version: str
    instance: str
    python: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PairAnswer(Answer):
    """One action of one format, and its trigger strategy."""

    format: str
    action: str
    interval_seconds: float | None = field(
        metadata=about("Evaluated this long after the last start; null: not by time.")
    )
    on_new_snapshot: bool = field(metadata=about("Evaluated when the table has changed."))
    parallelism: int = field(metadata=about("How many may run at once, over all instances; 0: no limit."))
    dry_run: bool = field(metadata=about("Whether it supports a dry run."))
    is_used: bool = field(metadata=about("False where another plugin has a higher priority for it."))


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginAnswer(Answer):
    kind: str
    name: str
    distribution: str
    version: str
    state: str = field(metadata=about("on, failing, slow, stuck, off or broken."))
    reason: str
    priority: int
    pairs: dict[str, list[str]]
    strategies: list[PairAnswer]
    errors: int = field(metadata=about("Calls in which it failed, since this process started."))
    hangs: int = field(metadata=about("Calls that were abandoned because they did not return."))
    last_error: str
    last_error_at: Moment | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginsAnswer(Answer):
    items: list[PluginAnswer]


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceAnswer(Answer):
    id: str
    host: str
    version: str
    started_at: Moment
    seen_at: Moment
    state: str | None = field(
        metadata=about("serving, draining, drained or stopped, as it last reported; null: its version cannot say.")
    )
    detail: Document


@dataclass(frozen=True, slots=True, kw_only=True)
class InstancesAnswer(Answer):
    items: list[InstanceAnswer]


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainAnswer(Answer):
    """How far this instance is with handing over its work."""

    instance: str
    state: str = field(metadata=about("serving, draining, or drained: then it can be stopped."))
    since: Moment | None
    by: str = field(metadata=about("Who asked for it."))
    operations: int = field(metadata=about("Operations whose lease it holds."))
    evaluations: int = field(metadata=about("Evaluations that are under way."))
    messages: int = field(metadata=about("Messages about alerts that are on their way."))
