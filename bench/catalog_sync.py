# SPDX-License-Identifier: Apache-2.0
"""One sync of a REST catalog in a process of its own, so that its memory can be measured; prints figures as JSON."""

import json
import resource
import sys
import time

from lakehand.core.plugins.proxies import proxy_of
from lakehand.core.plugins.registry import Plugins
from lakehand.core.services.audit_trail import AuditTrail
from lakehand.core.services.catalogs import CatalogService, ServedCatalog
from lakehand.core.services.tables import TableService
from lakehand.domain.locations import Warehouses
from lakehand.domain.tables import Catalog
from lakehand.formats.iceberg import IcebergFormat, IcebergProcessFactory
from lakehand.spi import Format
from lakehand.store import open_store
from lakehand.store.migrate import upgrade

ICEBERG = Format("iceberg")


def service_over(url: str, database: str) -> CatalogService:
    upgrade(database)
    store, factory = open_store(database), IcebergProcessFactory()
    factories = {(ICEBERG, action): factory for action in factory.supported_actions()[ICEBERG]}
    on = Plugins(formats={ICEBERG: proxy_of(IcebergFormat())}, factories=factories, engines={}, reports=())
    tables = TableService(
        store=store, audit=AuditTrail(store=store), plugins=on, warehouses=Warehouses(prefixes=("/data",)),
        wake=lambda: None, recognise=lambda _: None, first_actions={},
    )  # fmt: skip
    lake = Catalog(name="lake", format=ICEBERG, type="rest", properties={"uri": url})
    return CatalogService(store=store, plugins=on, tables=tables, catalogs={"lake": ServedCatalog(catalog=lake)})


def peak() -> int:
    """In bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> None:
    service = service_over(*sys.argv[1:])
    lake = service.get("lake").catalog
    next(iter(service.plugins.format(ICEBERG).tables(lake)), None)  # what libraries take is not counted
    before, began, processor = peak(), time.perf_counter(), time.process_time()
    report = service.sync("lake")
    figures = {
        "seconds": time.perf_counter() - began, "processor": time.process_time() - processor, "memory": peak() - before,
        "tables": report.tables, "added": len(report.added), "problem": report.problem,
    }  # fmt: skip
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
