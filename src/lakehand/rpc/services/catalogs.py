# SPDX-License-Identifier: Apache-2.0
"""Catalogs: list them, and sync one now."""

from lakehand.api.catalogs import SyncRequest
from lakehand.api.tables import FindQuery
from lakehand.rpc.context import Call
from lakehand.rpc.generated import catalogs_pb2 as pb
from lakehand.rpc.messages import fill, read


def list_catalogs(call: Call, _request: pb.ListCatalogsRequest) -> pb.ListCatalogsResponse:
    return fill(pb.ListCatalogsResponse(), catalogs=call.services.catalogs.list_all())


def sync_catalog(call: Call, request: pb.SyncCatalogRequest) -> pb.SyncCatalogResponse:
    name = read(FindQuery, request, "dry_run", "accept_empty").name
    report = call.services.catalogs.sync(call.caller, name, read(SyncRequest, request, "name"))
    return fill(pb.SyncCatalogResponse(), sync=report)
