# SPDX-License-Identifier: Apache-2.0
"""The checks of lakehand doctor, each on its own: it passes, or says what is wrong and how to fix it."""

import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from lakehand.app.home import own_paths, prepare_home
from lakehand.app.locations import keep_apart, warehouses_of
from lakehand.app.plugins import load as load_plugins
from lakehand.app.plugins import storage_properties
from lakehand.app.settings import Settings
from lakehand.core.plugins.registry import Plugins
from lakehand.core.ports import TableFilter
from lakehand.core.services.catalogs import without_secrets
from lakehand.domain.errors import Invalid, LakehandError
from lakehand.domain.locations import normalise_prefix
from lakehand.domain.operations import Handle
from lakehand.domain.processes import Json
from lakehand.domain.tables import Catalog, TableReference
from lakehand.engines.spark.command import FORMATS
from lakehand.engines.spark.engine import SparkEngine
from lakehand.engines.spark.jars import databases_of, default_cache, is_there, jars_of
from lakehand.engines.spark.java import java_home
from lakehand.engines.spark.settings import read_settings
from lakehand.formats.hudi.locks import PROVIDER, STORAGE_PROVIDER, storage_client
from lakehand.formats.hudi.table import HUDI
from lakehand.spi import EngineContext, EngineState, EngineStatus, LeaseGrant, Work
from lakehand.storage import Storages
from lakehand.store.migrate import current, head
from lakehand.store.sqlstore import open_store

SPARK_TIMEOUT = 180.0  # seconds for Spark to start and count to a thousand, or to ask a catalog
TIME_TO_LIVE = timedelta(minutes=1)
LONGEST_HANDLE = 120  # characters: it is the name of a file
MOST_LISTED = 100  # that are listed: a check, not a sync
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
LOG_STORE = re.compile(r"spark\.delta\.logStore\.([A-Za-z0-9+.-]+\.impl|class)")
MOST_READ = 1000  # that are read: a check, not an inventory
FIX = "name the jar that has this class in spark.jars or spark.jars.packages ([spark]), or correct the name"


class CheckResult(NamedTuple):
    part: str
    is_fine: bool
    detail: str
    fix: str = ""


class CheckFailed(Exception):
    """What is wrong, and the fix."""

    def __init__(self, detail: str, fix: str) -> None:
        super().__init__(detail)
        self.fix = fix


def result_of(part: str, check: Callable[..., str], *given: object) -> CheckResult:
    try:
        return CheckResult(part=part, is_fine=True, detail=check(*given))
    except CheckFailed as failed:
        return CheckResult(part=part, is_fine=False, detail=str(failed), fix=failed.fix)
    except Exception as error:
        fix = "" if isinstance(error, LakehandError) else "see the message"
        return CheckResult(part=part, is_fine=False, detail=str(error) or type(error).__name__, fix=fix)


def run_checks(settings: Settings, *, quick: bool) -> Iterator[CheckResult]:
    plugins = open_plugins(settings)
    formats = sorted(name for name in plugins.formats if name in FORMATS) if isinstance(plugins, Plugins) else []
    storages = Storages(storage_properties(settings.plugin_configs()))
    yield result_of("settings", check_settings, settings)
    yield result_of("python", check_python)
    yield result_of("java", check_java)
    yield result_of("plugins", check_plugins, plugins)
    yield result_of("jars", check_jars, settings, formats)
    yield result_of("home", check_home, settings)
    yield result_of("database", check_database, settings)
    if not settings.all_warehouses:
        detail = "no warehouse is configured, so no table can be served"
        yield CheckResult("storage", is_fine=False, detail=detail, fix="give --warehouse DIR or LAKEHAND_WAREHOUSES")
    for warehouse in settings.all_warehouses:
        yield result_of(f"storage {warehouse}", check_storage, warehouse, storages)
    catalogs = settings.catalog_map().values()
    for catalog in catalogs:
        yield result_of(f"catalog {catalog.name}", check_listing, plugins, catalog)
    if not quick:
        yield from run_spark_checks(settings, formats, list(catalogs))


def run_spark_checks(settings: Settings, formats: Sequence[str], catalogs: Sequence[Catalog]) -> Iterator[CheckResult]:
    with driver(settings, formats) as engine:
        started = result_of("spark", check_spark, engine)
        yield started
        in_spark = [one for one in catalogs if one.format in FORMATS and FORMATS[one.format].catalog]
        for catalog in in_spark if started.is_fine else ():
            yield result_of(f"catalog {catalog.name} in Spark", check_in_spark, engine, catalog)
        for name, setting in named_classes(settings).items() if started.is_fine else ():
            yield result_of(f"class {name}", check_class, engine, name, setting)


def check_python() -> str:
    version = ".".join(str(part) for part in sys.version_info[:3])
    if not (3, 10) <= sys.version_info[:2] <= (3, 12):
        raise CheckFailed(f"Python {version}", "use Python 3.10, 3.11 or 3.12")
    return f"Python {version}"


def check_java() -> str:
    java = java_home()
    return f"Java {java.version} in {java.home} ({java.origin})"


def open_plugins(settings: Settings) -> Plugins | LakehandError:
    try:
        return load_plugins(settings.plugin_configs(), None)
    except LakehandError as error:
        return error


def check_plugins(plugins: Plugins | LakehandError) -> str:
    if isinstance(plugins, LakehandError):
        raise plugins
    if broken := [f"{r.name}: {r.reason}" for r in plugins.reports if r.state == "broken"]:
        raise CheckFailed("; ".join(broken), "see the message, or switch the plugin off in the settings")
    return f"formats: {', '.join(sorted(plugins.formats)) or 'none'}"


def check_jars(settings: Settings, formats: Sequence[str]) -> str:
    """Of every format that is switched on, and of the object stores that tables are in."""
    folders = (settings.jar_folder, default_cache())
    conf = read_settings(settings.plugin_configs()["engine", "spark"].properties).conf
    jars = jars_of(formats, settings.storage_schemes, databases_of(list(settings.catalog_map().values()), conf))
    missing = [jar.file_name for jar in jars if not any(is_there(jar, folder) for folder in folders)]
    if missing:
        where = " or ".join(str(folder) for folder in folders)
        fix = "lakehand serve fetches them at its first start; without a network, copy them there"
        raise CheckFailed(f"{', '.join(missing)} not in {where}", fix)
    return f"{len(jars)} jars for {', '.join(formats) or 'no format'}"


def check_settings(settings: Settings) -> str:
    sentence, warnings = settings.config.sentence, settings.config.warnings
    if warnings:
        raise CheckFailed("; ".join([sentence, *warnings]), "see the message")
    return sentence


def check_home(settings: Settings) -> str:
    prepare_home(settings.home)
    try:
        with TemporaryDirectory(dir=settings.home):
            keep_apart(warehouses_of(settings.all_warehouses), own_paths(settings))
    except OSError as error:
        raise CheckFailed(
            f"{settings.home} cannot be written: {error}", "choose another --home, or make it writable"
        ) from error
    return f"{settings.home} is writable, and private to this user"


def check_database(settings: Settings) -> str:
    kind = settings.database_url.partition(":")[0]
    try:
        schema = current(settings.database_url)
    except Exception as error:
        first = str(error).splitlines()[0]
        raise CheckFailed(
            f"{kind} does not answer: {first}", "start it, or correct --database / LAKEHAND_DATABASE"
        ) from error
    if schema is None:
        return f"{kind} answers; it is empty, lakehand serve creates the schema"
    if schema != head():
        raise CheckFailed(f"{kind} has schema {schema}, this version needs {head()}", "run lakehand migrate")
    return f"{kind} answers, schema {schema}"


def check_storage(warehouse: str, storages: Storages) -> str:
    """With the storage properties of the formats, as the service reads it."""
    location = normalise_prefix(warehouse)
    fix = "create it, or correct --warehouse; check endpoint and credentials ([storage.s3] or environment)"
    try:
        storage, path = storages.of(location)
        files, folders = storage.contents(path)
    except FileNotFoundError:
        raise CheckFailed(f"there is no {location}", fix) from None
    except (OSError, Invalid) as error:
        raise CheckFailed(f"{location} cannot be read: {error}", fix) from error
    return f"can be read, {len(files) + len(folders)} entries"


@contextmanager
def driver(settings: Settings, formats: Sequence[str]) -> Iterator[SparkEngine]:
    properties = settings.plugin_configs()["engine", "spark"].properties
    with TemporaryDirectory(prefix="lakehand-doctor-") as folder:
        engine = SparkEngine()
        catalogs = tuple(settings.catalog_map().values())
        context = EngineContext(
            home=Path(folder), formats=tuple(formats), jars=settings.jars, catalogs=catalogs,
            storage=settings.storage.properties(), storage_schemes=settings.storage_schemes,
        )  # fmt: skip
        engine.open(properties, context)
        try:
            yield engine
        finally:
            engine.stop(timedelta(0))


def check_spark(engine: SparkEngine) -> str:
    started = time.monotonic()
    status = run_job(engine, "probe", {})
    if status.state is not EngineState.SUCCEEDED:
        raise CheckFailed(
            f"the job ended {status.state}: {status.message}", "fix the other checks first, java above all"
        )
    seconds = time.monotonic() - started
    return (
        f"Spark {status.result.get('spark')} counted {status.result.get('rows')} rows, {seconds:.0f} s with its start"
    )


def run_job(engine: SparkEngine, job: str, parameters: Mapping[str, Json]) -> EngineStatus:
    name = "-".join(["doctor", job, *(str(value) for value in parameters.values())])
    handle = Handle(re.sub(r"[^A-Za-z0-9._-]", "_", name)[:LONGEST_HANDLE])
    deadline = time.monotonic() + SPARK_TIMEOUT
    engine.submit(
        Work(job=job, parameters=parameters, table="none", location=""),
        handle,
        LeaseGrant(heartbeat_token=None, time_to_live=TIME_TO_LIVE),
    )
    while time.monotonic() < deadline:
        engine.tend()
        if heartbeat_token := engine.heartbeat_token():
            engine.renew([handle], LeaseGrant(heartbeat_token=heartbeat_token, time_to_live=TIME_TO_LIVE))
        status = engine.status([handle])[handle]
        if status.state.is_over:
            return status
        if engine.launcher.failures:
            raise CheckFailed(f"the driver does not start: {engine.launcher.error}", "fix java and jars first")
        time.sleep(0.2)
    raise CheckFailed(
        f"no answer within {SPARK_TIMEOUT:.0f} s", "check whether the machine has enough free memory and processor time"
    )


def check_listing(plugins: Plugins | LakehandError, catalog: Catalog) -> str:
    """As the sync of the service does it, without Spark."""
    if isinstance(plugins, LakehandError):
        raise plugins
    try:
        found = list(islice(plugins.format(catalog.format).tables(catalog), MOST_LISTED))
    except Exception as error:
        raise failed(catalog, f"it cannot be listed: {type(error).__name__}: {error}") from error
    if unreadable := [one for one in found if one.problem]:
        what = "; ".join(f"{one.db_name}.{one.table_name}: {one.problem}" for one in unreadable[:3])
        raise failed(catalog, f"{len(unreadable)} of {len(found)} tables: {what}")
    return listing(found)


def listing(found: Sequence[TableReference]) -> str:
    more = "at least " if len(found) == MOST_LISTED else ""
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
        for table in store.tables.list(TableFilter(format=HUDI), limit=MOST_READ, cursor=None).items:
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
