# SPDX-License-Identifier: Apache-2.0
"""Routes about the service itself: version, plugins, instances."""

from dataclasses import fields

from fastapi import APIRouter
from pydantic import BaseModel, Field

from lakehand.core.ports import PairReport, PluginReport
from lakehand.rest.access import Caller, Context
from lakehand.rest.fields import Document, Moment

router = APIRouter(prefix="/api/v1", tags=["service"])


class VersionAnswer(BaseModel):
    name: str = "lakehand"
    version: str
    instance: str
    python: str


class PairAnswer(BaseModel):
    """One action of one format, and its trigger strategy."""

    format: str
    action: str
    interval_seconds: float | None = Field(description="Evaluated so long after the last start; null: not by time.")
    on_new_snapshot: bool = Field(description="Evaluated when the table has changed.")
    parallelism: int = Field(description="How many may run at once, over all instances; 0: no limit.")
    dry_run: bool = Field(description="Whether it supports a dry run.")
    is_used: bool = Field(description="False where another plugin has a higher priority for it.")


class PluginAnswer(BaseModel):
    kind: str
    name: str
    distribution: str
    version: str
    state: str = Field(description="on, failing, slow, stuck, off or broken.")
    reason: str
    priority: int
    pairs: dict[str, list[str]]
    strategies: list[PairAnswer]
    errors: int = Field(description="Calls in which it failed, since this process started.")
    hangs: int = Field(description="Calls that were abandoned because they did not return.")
    last_error: str
    last_error_at: Moment | None


class PluginsAnswer(BaseModel):
    items: list[PluginAnswer]


class InstanceAnswer(BaseModel):
    id: str
    host: str
    version: str
    started_at: Moment
    seen_at: Moment
    detail: Document


class InstancesAnswer(BaseModel):
    items: list[InstanceAnswer]


@router.get("/version")
def show_version(context: Context) -> VersionAnswer:
    about = context.about
    return VersionAnswer(version=about.version, instance=about.instance, python=about.python)


@router.get("/plugins")
def list_plugins(context: Context, _caller: Caller) -> PluginsAnswer:
    """Every plugin that was found: its strategies, and its state in this instance."""
    return PluginsAnswer(items=[plugin_answer(report) for report in context.plugins()])


def plugin_answer(report: PluginReport) -> PluginAnswer:
    named = {field.name: getattr(report, field.name) for field in fields(report)}
    pairs = {name: list(actions) for name, actions in report.pairs.items()}
    return PluginAnswer(**{**named, "pairs": pairs, "strategies": [pair_answer(pair) for pair in report.strategies]})


def pair_answer(pair: PairReport) -> PairAnswer:
    return PairAnswer(
        format=pair.format,
        action=pair.action,
        interval_seconds=None if pair.interval is None else pair.interval.total_seconds(),
        on_new_snapshot=pair.on_new_snapshot,
        parallelism=pair.parallelism,
        dry_run=pair.dry_run,
        is_used=pair.is_used,
    )


@router.get("/instances")
def list_instances(context: Context, _caller: Caller) -> InstancesAnswer:
    """The service processes that share this database."""
    found = [InstanceAnswer.model_validate(one, from_attributes=True) for one in context.instances.list()]
    return InstancesAnswer(items=found)
