# SPDX-License-Identifier: Apache-2.0
"""Routes of catalogs: list them, and sync one now. Their properties may be secret and are never shown."""

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from lakehand.core.catalog_service import CatalogService, ServedCatalog, SyncReport
from lakehand.domain.errors import NotFound
from lakehand.rest.access import Caller, Context
from lakehand.rest.context import ApiContext
from lakehand.rest.fields import Moment, Name

router = APIRouter(prefix="/api/v1/catalogs", tags=["catalogs"])


class SyncRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")

    dry_run: bool = Field(default=False, description="Only report what would change.")
    accept_empty: bool = Field(
        default=False, description="Accept a catalog that lists few tables or none, and retire what is missing."
    )


class SyncAnswer(BaseModel):
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

    @classmethod
    def of(cls, report: SyncReport) -> "SyncAnswer":
        return cls.model_validate(report, from_attributes=True)


class CatalogAnswer(BaseModel):
    name: str
    format: str
    type: str
    sync: bool
    actions: list[str] = Field(description="Wanted for its tables; none: all that the format has.")
    owner: str
    queue: str
    properties: list[str] = Field(description="The names of its properties; values may be secret.")
    last_sync: SyncAnswer | None = Field(description="The last sync by this instance.")

    @classmethod
    def of(cls, served: ServedCatalog, last: SyncReport | None) -> "CatalogAnswer":
        catalog = served.catalog
        return cls(
            name=catalog.name,
            format=catalog.format,
            type=catalog.type,
            sync=served.sync,
            actions=sorted(served.actions),
            owner=served.owner,
            queue=served.queue,
            properties=sorted(catalog.properties),
            last_sync=SyncAnswer.of(last) if last else None,
        )


class CatalogsAnswer(BaseModel):
    items: list[CatalogAnswer]


@router.get("")
def list_catalogs(context: Context, _caller: Caller) -> CatalogsAnswer:
    """The catalogs of the settings, and what the last sync of each changed."""
    service = context.catalogs
    if service is None:
        return CatalogsAnswer(items=[])
    items = [CatalogAnswer.of(served, service.last.get(name)) for name, served in sorted(service.catalogs.items())]
    return CatalogsAnswer(items=items)


@router.post("/{name}/sync")
def sync_catalog(name: Name, context: Context, caller: Caller, request: SyncRequest | None = None) -> SyncAnswer:
    """Register its new tables and retire those that were dropped, now."""
    wanted = request or SyncRequest()
    report = catalog_service(context).sync(name, dry_run=wanted.dry_run, accept_empty=wanted.accept_empty, by=caller)
    return SyncAnswer.of(report)


def catalog_service(context: ApiContext) -> CatalogService:
    if context.catalogs is None:
        raise NotFound("this service has no catalogs: see [catalogs.NAME] in its settings")
    return context.catalogs
