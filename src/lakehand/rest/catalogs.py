# SPDX-License-Identifier: Apache-2.0
"""Routes of catalogs: list them, and sync one now. Their properties may be secret and are never shown."""

from fastapi import APIRouter

from lakehand.api.catalogs import CatalogsAnswer, SyncAnswer, SyncRequest
from lakehand.api.fields import Name
from lakehand.rest.dependencies import Caller, Services

router = APIRouter(prefix="/api/v1/catalogs", tags=["catalogs"])


@router.get("")
def list_catalogs(services: Services, _caller: Caller) -> CatalogsAnswer:
    """The catalogs of the settings, and what the last sync of each changed."""
    return CatalogsAnswer(items=list(services.catalogs.list_all()))


@router.post("/{name}/sync")
def sync_catalog(name: Name, services: Services, caller: Caller, request: SyncRequest | None = None) -> SyncAnswer:
    """Register its new tables and retire those that were dropped, now."""
    return services.catalogs.sync(caller, name, request or SyncRequest())
