# SPDX-License-Identifier: Apache-2.0
"""The checks of lakehand doctor, each on its own: it passes, or says what is wrong and how to fix it."""

import sys
from collections.abc import Iterator, Sequence
from tempfile import TemporaryDirectory

from lakehand.app.home import own_paths, prepare_home
from lakehand.app.path_guard import keep_apart, warehouses_of
from lakehand.app.plugins import load as load_plugins
from lakehand.app.plugins import storage_properties
from lakehand.app.settings import Settings
from lakehand.cli.catalog_checks import check_in_spark, check_listing
from lakehand.cli.check_results import CheckFailed, CheckResult, result_of
from lakehand.cli.class_checks import check_class, named_classes
from lakehand.cli.spark_checks import check_spark, driver
from lakehand.core.plugins.registry import Plugins
from lakehand.domain.errors import Invalid, LakehandError
from lakehand.domain.locations import normalise_prefix
from lakehand.domain.references import Catalog
from lakehand.engines.spark.command import FORMATS
from lakehand.engines.spark.jars import databases_of, default_cache, is_there, jars_of
from lakehand.engines.spark.java import java_home
from lakehand.engines.spark.settings import read_settings
from lakehand.storage import Storages
from lakehand.store.migrate import current, head


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
