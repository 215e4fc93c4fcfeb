# SPDX-License-Identifier: Apache-2.0
"""Routes of catalogs: list them, and sync one now. Their properties may be secret and are never shown."""

from fastapi import APIRouter
from pydantic import BaseModel, Field
from typing_extensions import Self

from lakehand.api.fields import Name
from lakehand.core.services.catalogs import ServedCatalog, SyncReport
from lakehand.inputs.fleet import SyncRequest
from lakehand.rest.access import Caller, Context
from lakehand.rest.fields import Answer, Moment, SortedNames, fields_of

router = APIRouter(prefix="/api/v1/catalogs", tags=["catalogs"])


class SyncAnswer(Answer):
    """What a sync changed; names are `db.table`."""

    catalog: str
    at: Moment
    dry_run: bool
    tables: int = Field(description="How many the catalog lists.")
    added: list[str]
    renamed: list[str]
    retired: list[str]
    missing: list[str] = Field(description="Not listed, and kept for now; `problem` says why.")
    refused: dict[str, str] = Field(description="Could not be registered, and why.")
    problem: str


class CatalogAnswer(Answer):
    name: str
    format: str
    type: str
    sync: bool
    actions: SortedNames = Field(description="Wanted for its tables; none: all that the format has.")
    owner: str
    queue: str
    properties: SortedNames = Field(description="The names of its properties; values may be secret.")
    last_sync: SyncAnswer | None = Field(description="The last sync by this instance.")

    @classmethod
    def of(cls, served: ServedCatalog, last: SyncReport | None) -> Self:
        return cls(**fields_of(served.catalog, served) | {"last_sync": last})


class CatalogsAnswer(BaseModel):
    items: list[CatalogAnswer]


@router.get("")
def list_catalogs(context: Context, _caller: Caller) -> CatalogsAnswer:
    """The catalogs of the settings, and what the last sync of each changed."""
    service = context.catalogs
    items = [CatalogAnswer.of(served, service.last.get(name)) for name, served in sorted(service.catalogs.items())]
    return CatalogsAnswer(items=items)


@router.post("/{name}/sync")
def sync_catalog(name: Name, context: Context, caller: Caller, request: SyncRequest | None = None) -> SyncAnswer:
    """Register its new tables and retire those that were dropped, now."""
    wanted = (request or SyncRequest()).model_dump()
    return SyncAnswer.model_validate(context.requests.sync_catalog(caller, name, **wanted))
