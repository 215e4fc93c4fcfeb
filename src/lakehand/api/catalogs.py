# SPDX-License-Identifier: Apache-2.0
"""Requests and answers about catalogs. Their properties may be secret and are never shown."""

from dataclasses import dataclass, field

from lakehand.api.fields import STRICT, Answer, Moment, about


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRequest:
    __pydantic_config__ = STRICT

    dry_run: bool = field(default=False, metadata=about("Only report what would change."))
    accept_empty: bool = field(
        default=False, metadata=about("Accept a catalog that lists few tables or none, and retire what is missing.")
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncAnswer(Answer):
    """What a sync changed; names are `db.table`."""

    catalog: str
    at: Moment
    dry_run: bool
    tables: int = field(metadata=about("How many the catalog lists."))
    added: list[str]
    renamed: list[str]
    retired: list[str]
    missing: list[str] = field(metadata=about("Not listed, and kept for now; `problem` says why."))
    refused: dict[str, str] = field(metadata=about("Could not be registered, and why."))
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogAnswer(Answer):
    name: str
    format: str
    type: str
    sync: bool
    actions: list[str] = field(metadata=about("Wanted for its tables; none: all that the format has."))
    owner: str
    queue: str
    properties: list[str] = field(metadata=about("The names of its properties; values may be secret."))
    last_sync: SyncAnswer | None = field(metadata=about("The last sync by this instance."))


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogsAnswer(Answer):
    items: list[CatalogAnswer]
