# SPDX-License-Identifier: Apache-2.0
"""Routes about the service itself: version, plugins, instances."""

from fastapi import APIRouter
from pydantic import BaseModel

from lakehand.rest.access import Caller, FacesHere
from lakehand.rest.fields import Document, Moment

router = APIRouter(prefix="/api/v1", tags=["service"])


class VersionAnswer(BaseModel):
    name: str = "lakehand"
    version: str
    instance: str
    python: str


class PluginAnswer(BaseModel):
    kind: str
    name: str
    distribution: str
    version: str
    state: str
    reason: str
    pairs: dict[str, list[str]]


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
    """Every plugin that was found: on, off, or broken and why."""
    return PluginsAnswer(
        items=[
            PluginAnswer(
                kind=plugin.kind,
                name=plugin.name,
                distribution=plugin.distribution,
                version=plugin.version,
                state=plugin.state,
                reason=plugin.reason,
                pairs=dict(plugin.pairs),
            )
            for plugin in faces.plugins
        ]
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
