# SPDX-License-Identifier: Apache-2.0
"""Fixtures for all tests: a fresh, empty database of each kind, and one Spark session."""

import gc
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

from tests.databases import Server, ServerMissing, mariadb, postgresql
from tests.kit import tiers
from tests.kit.collecting import is_left_out
from tests.kit.leftovers import Leftovers
from tests.kit.templates import made_once

pytest_plugins = ("tests.kit.sentences",)
T = TypeVar("T")
# A JVM that lives for a minute gains nothing from the optimising compiler and a parallel collector. Hudi measures
# objects with JOL, which starts two more JVMs to attach to its own, and fails. Without the optimising compiler Java
# reserves 48 MB for compiled code, which all formats in one session fill: keep the usual size.
QUICK_JAVA = (
    "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC -XX:-UsePerfData"
    " -Djol.skipDynamicAttach=true -Djol.skipHotspotSAAttach=true"
)

LONG = pytest.StashKey[str]()  # which of the long tests run, as a line
WANTS_CLASSES = pytest.StashKey[bool]()  # whether Java's options are ours, and still without the archive of classes

# Compiling a query takes longer than a short one runs.
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


def pytest_addoption(parser: pytest.Parser) -> None:
    tiers.add_options(parser)


def pytest_report_header(config: pytest.Config) -> str:
    return config.stash[LONG]


def pytest_configure(config: pytest.Config) -> None:
    """The many processes that tests start compile each module once, also where Python is asked to keep nothing."""
    leftovers = Leftovers()
    leftovers.begin()
    config.pluginmanager.register(leftovers)
    config.stash[LONG] = tiers.choose_files(config)
    tiers.record_seconds(config)
    config.stash[WANTS_CLASSES] = os.environ.setdefault("JAVA_TOOL_OPTIONS", QUICK_JAVA) == QUICK_JAVA
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
        # Beside the modules: in a folder of its own, every library would be compiled again.
        sys.dont_write_bytecode = False


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    expression = config.getoption("markexpr")
    return True if is_left_out(collection_path, root=config.rootpath, expression=expression) else None


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """What imports and collecting leave stays until the end: the collector walks through it neither now nor later."""
    if session.config.getoption("dist", "no") == "no":  # else other processes collect
        from hypothesis import settings

        settings.register_profile("busy", settings.get_profile(settings.get_current_profile_name()), deadline=None)
        settings.load_profile("busy")  # a busy machine takes long for any example
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before the first test that may start a driver."""
    config, cache = item.config, getattr(item.config, "cache", None)
    if config.stash.get(WANTS_CLASSES, False) and item.get_closest_marker("spark") and cache is not None:
        from tests.kit.class_archive import use_archive  # tests without Spark need none

        config.stash[WANTS_CLASSES] = not use_archive(cache.mkdir("classes"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    from tests.kit.scheduling import SharedTables  # not where pytest runs without xdist

    return SharedTables(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A test that uses a database server is marked so."""
    tiers.leave_out(config, items)
    for item in items:
        if {"postgresql_server", "mariadb_server"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.server)


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[Server]:
    yield from server_of(postgresql)


@pytest.fixture(scope="session")
def mariadb_server() -> Iterator[Server]:
    yield from server_of(mariadb)


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    """One Spark session with all formats, for all tests that write or read tables themselves."""
    from tests.spark_session import start_session  # tests without Spark do not wait for its import

    session = start_session(**INTERPRETED)
    yield session
    session.stop()


@pytest.fixture(autouse=True)
def sockets_of_pyspark(request: pytest.FixtureRequest) -> Iterator[None]:
    """pyspark leaves a socket to the collector after each ``collect``: it is collected here, not in another test."""
    if request.node.get_closest_marker("spark") is None:
        yield
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        yield
        gc.collect()


@pytest.fixture(scope="session", autouse=True)
def sqlite_that_waits_for_no_disk() -> Iterator[None]:
    from tests.kit.quick_sqlite import quick_sqlite

    with quick_sqlite():
        yield


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'lakehand.db'}"


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty database with the newest schema, to be copied."""
    from lakehand.store.migrate import upgrade

    def make(folder: Path) -> None:
        folder.mkdir()
        upgrade(f"sqlite:///{folder / 'lakehand.db'}")

    return made_once(tmp_path_factory, "sqlite", make) / "lakehand.db"


@pytest.fixture
def postgresql_url(postgresql_server: Server) -> Iterator[str]:
    with postgresql_server.fresh_database() as url:
        yield url


@pytest.fixture
def mariadb_url(mariadb_server: Server) -> Iterator[str]:
    with mariadb_server.fresh_database() as url:
        yield url


def server_of(start: Callable[[], AbstractContextManager[T]]) -> Iterator[T]:
    """A missing server is a visible skip on a developer's machine and a failure where all must be tested."""
    try:
        with start() as server:
            yield server
    except ServerMissing as missing:
        if os.environ.get("CI") == "true":
            pytest.fail(str(missing))
        pytest.skip(str(missing))
