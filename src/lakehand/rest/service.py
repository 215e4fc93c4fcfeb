# SPDX-License-Identifier: Apache-2.0
"""Routes about the service itself: version, plugins, instances."""

from dataclasses import fields

from fastapi import APIRouter
from pydantic import BaseModel, Field

from lakehand.core.ports import PairReport, PluginReport
from lakehand.rest.access import Caller, FacesHere
from lakehand.rest.fields import Document, Moment

router = APIRouter(prefix="/api/v1", tags=["service"])


class VersionAnswer(BaseModel):
    name: str = "lakehand"
    version: str
    instance: str
    python: str


class PairAnswer(BaseModel):
    """One action of one format, and the strategy by which it is looked at."""

    format: str
    action: str
    interval_seconds: float | None = Field(description="Looked at so long after the last start; null: not by time.")
    on_new_snapshot: bool = Field(description="Looked at when the table has changed.")
    parallelism: int = Field(description="So many of it may run at once, over all instances; 0: no limit.")
    dry_run: bool = Field(description="Whether it can list what it would delete, and delete nothing.")
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
    hangs: int = Field(description="Calls that were left because they did not come back.")
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
def show_version(faces: FacesHere) -> VersionAnswer:
    about = faces.about
    return VersionAnswer(version=about.version, instance=about.instance, python=about.python)


@router.get("/plugins")
def list_plugins(faces: FacesHere, _caller: Caller) -> PluginsAnswer:
    """Every plugin that was found, with what it does when, and how it is now in this instance."""
    return PluginsAnswer(items=[plugin_answer(report) for report in faces.plugins()])


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
def list_instances(faces: FacesHere, _caller: Caller) -> InstancesAnswer:
    """The service processes that share this database."""
    return InstancesAnswer(
        items=[
            InstanceAnswer(
                id=instance.id,
                host=instance.host,
                version=instance.version,
                started_at=instance.started_at,
                seen_at=instance.seen_at,
                detail=dict(instance.detail),
            )
            for instance in faces.instances.list()
        ]
    )
