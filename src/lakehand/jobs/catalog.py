# SPDX-License-Identifier: Apache-2.0
"""A job that loads a catalog of the settings, lists what is in it and reads a file of one table. It changes nothing.

If it cannot, it returns every cause. Spark's SQL would hide them: it takes a catalog that cannot be loaded for a
namespace.
"""

from collections.abc import Iterator
from typing import Any

from lakehand.jobs.causes import causes_of
from lakehand.jobs.job import Job
from lakehand.jobs.spark import activate

MOST_NAMESPACES = 20  # that are looked into for a table


def run(job: Job) -> dict[str, Any]:
    try:
        return look(job, str(job.parameters["catalog"]))
    except Exception as error:
        job.check()
        return {"causes": [{"name": each.name, "message": each.message} for each in causes_of(error)]}


def look(job: Job, name: str) -> dict[str, Any]:
    activate(job.session)
    job.phase("loading the catalog")
    catalog = job.session._jsparkSession.sessionState().catalogManager().catalog(name)
    job.phase("listing namespaces")
    namespaces = list(catalog.listNamespaces())
    job.phase("loading a table")
    found = next(tables(catalog, namespaces[:MOST_NAMESPACES]), None)
    read = read_file(catalog.loadTable(found)) if found is not None else ""
    return {"namespaces": len(namespaces), "table": str(found) if found is not None else "", "read": read}


def tables(catalog: Any, namespaces: list[Any]) -> Iterator[Any]:
    for namespace in namespaces:
        yield from list(catalog.listTables(namespace))


def read_file(loaded: Any) -> str:
    """The newest metadata file of an Iceberg table, read with what the catalog hands out; nothing of other formats."""
    if not str(loaded.getClass().getName()).startswith("org.apache.iceberg."):
        return ""
    table = loaded.table()
    file = str(table.operations().current().metadataFileLocation())
    stream = table.io().newInputFile(file).newStream()
    try:
        stream.read()
    finally:
        stream.close()
    return file
