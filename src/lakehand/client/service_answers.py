# SPDX-License-Identifier: Apache-2.0
"""The service itself: version, instances, plugins, catalogs."""

from dataclasses import dataclass
from datetime import datetime

from lakehand.api.fields import Answer
from lakehand.client.documents import Document


@dataclass(frozen=True, slots=True, kw_only=True)
class Version(Answer):
    name: str
    version: str
    instance: str
    python: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance(Answer):
    id: str
    host: str
    version: str
    started_at: datetime
    seen_at: datetime
    state: str | None  # serving, draining, drained or stopped, as it last reported; None: its version cannot say
    detail: Document


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain(Answer):
    """How far an instance is with handing over its work."""

    instance: str
    state: str  # serving, draining, or drained: then it can be stopped
    since: datetime | None
    by: str
    operations: int
    evaluations: int
    messages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy(Answer):
    """When one action of one format is evaluated."""

    format: str
    action: str
    interval_seconds: float | None
    on_new_snapshot: bool
    parallelism: int  # 0: no limit
    dry_run: bool
    is_used: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin(Answer):
    kind: str
    name: str
    distribution: str
    version: str
    state: str
    reason: str
    priority: int
    pairs: dict[str, list[str]]
    strategies: list[Strategy]
    errors: int
    hangs: int
    last_error: str
    last_error_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogSync(Answer):
    """What a sync changed; names are ``db.table``."""

    catalog: str
    at: datetime
    dry_run: bool
    tables: int
    added: list[str]
    renamed: list[str]
    retired: list[str]
    missing: list[str]
    refused: dict[str, str]
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog(Answer):
    name: str
    format: str
    type: str
    sync: bool
    actions: list[str]
    owner: str
    queue: str
    properties: list[str]  # their names only: values may be secret
    last_sync: CatalogSync | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitReason(Answer):
    outcome: str
    reason: str
    count: int
    example: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitOutcome(Answer):
    """What became of commit events that were sent."""

    stored: int
    ignored: int
    waiting: int
    refused: int
    tables: int
    reasons: list[CommitReason]
