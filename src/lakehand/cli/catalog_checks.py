# SPDX-License-Identifier: Apache-2.0
"""Checks of the catalogs of the settings: as the service reads them, and as Spark loads them."""

import re
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from lakehand.cli.check_results import CheckFailed
from lakehand.cli.spark_checks import run_job
from lakehand.core.plugins.registry import Plugins
from lakehand.core.services.catalogs import without_secrets
from lakehand.domain.errors import LakehandError
from lakehand.domain.references import Catalog, TableReference
from lakehand.engines.spark.engine import SparkEngine
from lakehand.spi import EngineState

MOST_TABLES = 100  # that are listed: a check, not a sync
SAID = 600  # characters of a cause that are shown
# What the causes say, and what a person can do about it. The first that fits counts.
STORE = "credentials of the store: [storage.s3], the environment, or what the catalog hands out"
HINTS: Mapping[str, str] = {
    r"No suitable driver": "name the jar of the database's JDBC driver in spark.jars or spark.jars.packages ([spark])",
    r"ClassNotFound|NoClassDefFound|Cannot find constructor|Cannot load class":
        "name the jar that has this class in spark.jars or spark.jars.packages ([spark])",
    r"S3Exception|AmazonS3|Unable to load credentials|ACCESS_DENIED|AccessDenied": STORE,
    r"NotAuthorized|Unauthorized|Forbidden|authentication failed|Access denied for user|\b40[13]\b":
        "correct the credentials of the catalog: token, credential, jdbc.user, jdbc.password",
    r"UnknownHost|ConnectException|Connection refused|connection failed|not answer|timed out|Timeout|NoRouteTo|resolve":
        "start the catalog, or correct its uri; check that this machine reaches it",
    r"NoSuchWarehouse|warehouse": "correct the warehouse of the catalog",
    r"\b404\b|NoSuch|not found": "correct uri and warehouse of the catalog: something answers there, but not this one",
}  # fmt: skip


def check_listing(plugins: Plugins | LakehandError, catalog: Catalog) -> str:
    """As the sync of the service does it, without Spark."""
    if isinstance(plugins, LakehandError):
        raise plugins
    try:
        found = list(islice(plugins.format(catalog.format).tables(catalog), MOST_TABLES))
    except Exception as error:
        raise failed(catalog, f"it cannot be listed: {type(error).__name__}: {error}") from error
    if unreadable := [one for one in found if one.problem]:
        what = "; ".join(f"{one.db_name}.{one.table_name}: {one.problem}" for one in unreadable[:3])
        raise failed(catalog, f"{len(unreadable)} of {len(found)} tables: {what}")
    return listing(found)


def listing(found: Sequence[TableReference]) -> str:
    more = "at least " if len(found) == MOST_TABLES else ""
    return f"can be listed, {more}{len(found)} tables"


def check_in_spark(engine: SparkEngine, catalog: Catalog) -> str:
    status = run_job(engine, "catalog", {"catalog": catalog.name})
    result: Mapping[str, Any] = status.result
    if status.state is not EngineState.SUCCEEDED:
        raise failed(catalog, f"the job ended {status.state}: {status.message}")
    if causes := result.get("causes"):
        raise failed(catalog, f"Spark cannot use it: {told(causes)}")
    read = f", and read a file of {result['table']}" if result.get("read") else ""
    return f"Spark loaded it, {result.get('namespaces')} namespaces{read}"


def told(causes: Sequence[Mapping[str, str]]) -> str:
    """From the outermost to the root, each text once."""
    lines: dict[str, None] = {}
    for cause in causes:
        text = f"{cause['name'].rpartition('.')[2]}: {' '.join(cause['message'].split())[:SAID]}"
        if not any(text.partition(": ")[2] and text.partition(": ")[2] in earlier for earlier in lines):
            lines[text] = None
    return " ← ".join(lines)


def failed(catalog: Catalog, text: str) -> CheckFailed:
    return CheckFailed(without_secrets(text, catalog), hint(text, catalog))


def hint(text: str, catalog: Catalog) -> str:
    fix = next((fix for pattern, fix in HINTS.items() if re.search(pattern, text)), "see the message")
    return f"{fix} ([catalogs.{catalog.name}])"
