# SPDX-License-Identifier: Apache-2.0
"""Catalogs: list them, and sync one now."""

from lakehand.api.tables import FindQuery
from lakehand.core.services.catalogs import ServedCatalog, SyncReport
from lakehand.inputs.fleet import SyncRequest
from lakehand.rpc.context import Call
from lakehand.rpc.generated import catalogs_pb2 as pb
from lakehand.rpc.messages import fill, read


def list_catalogs(call: Call, _request: pb.ListCatalogsRequest) -> pb.ListCatalogsResponse:
    known = call.context.catalogs
    catalogs = [catalog_message(served, known.last.get(name)) for name, served in sorted(known.catalogs.items())]
    return pb.ListCatalogsResponse(catalogs=catalogs)


def catalog_message(served: ServedCatalog, last: SyncReport | None) -> pb.Catalog:
    names = {"actions": sorted(served.actions), "properties": sorted(served.catalog.properties)}
    return fill(pb.Catalog(), served.catalog, served, last_sync=last, **names)


def sync_catalog(call: Call, request: pb.SyncCatalogRequest) -> pb.SyncCatalogResponse:
    name = read(FindQuery, request, "dry_run", "accept_empty").name
    wanted = read(SyncRequest, request, "name").model_dump()
    report = call.context.requests.sync_catalog(call.caller, name, **wanted)
    return fill(pb.SyncCatalogResponse(), sync=report)
