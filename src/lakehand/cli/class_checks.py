# SPDX-License-Identifier: Apache-2.0
"""Checks of the classes that settings and tables name to protect commits: they must be in the Spark driver."""

import re
from collections.abc import Iterator

from lakehand.app.settings import Settings
from lakehand.cli.check_results import CheckFailed
from lakehand.cli.spark_checks import run_job
from lakehand.core.ports import TableFilter
from lakehand.engines.spark.engine import SparkEngine
from lakehand.engines.spark.settings import read_settings
from lakehand.formats.hudi.locks import PROVIDER, STORAGE_PROVIDER, storage_client
from lakehand.formats.hudi.table import HUDI
from lakehand.spi import EngineState
from lakehand.store.migrate import current, head
from lakehand.store.sqlstore import open_store

LOG_STORE = re.compile(r"spark\.delta\.logStore\.([A-Za-z0-9+.-]+\.impl|class)")
MOST_TABLES = 1000  # that are read: a check, not an inventory
FIX = "name the jar that has this class in spark.jars or spark.jars.packages ([spark]), or correct the name"


def named_classes(settings: Settings) -> dict[str, str]:
    """Each class with the setting that names or needs it."""
    return dict([*log_stores(settings), *locks(settings)])


def log_stores(settings: Settings) -> Iterator[tuple[str, str]]:
    conf = read_settings(settings.plugin_configs()["engine", "spark"].properties).conf
    yield from ((value, key) for key, value in conf.items() if LOG_STORE.fullmatch(key) and value)


def locks(settings: Settings) -> Iterator[tuple[str, str]]:
    for provider, location in providers(settings):
        setting = f"{PROVIDER}={provider}"
        yield provider, setting
        if provider == STORAGE_PROVIDER and (client := storage_client(location)):
            yield client, setting


def providers(settings: Settings) -> Iterator[tuple[str, str]]:
    """The lock providers of Hudi, each with a location that it is used at."""
    config = settings.plugin_configs().get(("process-factory", str(HUDI)))
    if config and (provider := config.properties.get(PROVIDER, "").strip()):
        yield from ((provider, warehouse) for warehouse in settings.all_warehouses or ("",))
    yield from set(providers_of_tables(settings.database_url))


def providers_of_tables(url: str) -> Iterator[tuple[str, str]]:
    if not has_tables(url):
        return
    store = open_store(url)
    try:
        for table in store.tables.list(TableFilter(format=HUDI), limit=MOST_TABLES, cursor=None).items:
            if provider := table.spec.properties.get(PROVIDER, "").strip():
                yield provider, table.spec.location
    finally:
        store.close()


def has_tables(url: str) -> bool:
    """False also where another check says what is wrong with the database."""
    try:
        return current(url) == head()
    except Exception:
        return False


def check_class(engine: SparkEngine, name: str, setting: str) -> str:
    status = run_job(engine, "classes", {"class": name})
    if status.state is not EngineState.SUCCEEDED:
        raise CheckFailed(f"{setting}: the job ended {status.state}: {status.message}", "see the message")
    if why := status.result["missing"]:
        raise CheckFailed(f"{setting} needs it, and Spark cannot load it: {why}", FIX)
    return f"Spark can load it ({setting})"
