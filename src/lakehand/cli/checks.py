# SPDX-License-Identifier: Apache-2.0
"""What a Lakehand needs on its machine, each looked at by itself: fine, or what is wrong and how to mend it."""

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from lakehand.app.home import own_paths, prepare_home
from lakehand.app.path_guard import keep_apart, warehouses_of
from lakehand.app.settings import Settings
from lakehand.domain.errors import LakehandError
from lakehand.domain.locations import normalise_prefix
from lakehand.domain.operations import Handle
from lakehand.engines.spark.engine import SparkEngine
from lakehand.engines.spark.jars import default_cache, is_there, jars_of
from lakehand.engines.spark.java import java_home
from lakehand.spi import EngineContext, EngineState, EngineStatus, LeaseGrant, Work
from lakehand.store.migrate import current, head

SPARK_PATIENCE = 180.0  # seconds for Spark to start and count to a thousand
TIME_TO_LIVE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    part: str
    is_fine: bool
    detail: str
    fix: str = ""

    def document(self) -> dict[str, Any]:
        return asdict(self)


class Ailing(Exception):
    """Something is wrong: what, and the fix."""

    def __init__(self, detail: str, fix: str) -> None:
        super().__init__(detail)
        self.fix = fix


def examine(settings: Settings, *, quick: bool) -> Iterator[Finding]:
    yield found("settings", lambda: check_settings(settings))
    yield found("python", check_python)
    yield found("java", check_java)
    yield found("jars", lambda: check_jars(settings))
    yield found("home", lambda: check_home(settings))
    yield found("database", lambda: check_database(settings))
    if not settings.warehouses:
        yield found("storage", no_warehouse)
    for place in settings.warehouses:
        yield found(f"storage {place}", lambda place=place: check_storage(place))  # type: ignore[misc]
    if not quick:
        yield found("spark", lambda: check_spark(settings))


def found(part: str, check: Callable[[], str]) -> Finding:
    try:
        return Finding(part=part, is_fine=True, detail=check())
    except Ailing as ill:
        return Finding(part=part, is_fine=False, detail=str(ill), fix=ill.fix)
    except Exception as error:
        fix = "" if isinstance(error, LakehandError) else "see the message"
        return Finding(part=part, is_fine=False, detail=str(error) or type(error).__name__, fix=fix)


def check_python() -> str:
    version = ".".join(str(part) for part in sys.version_info[:3])
    if sys.version_info[:2] not in ((3, 10), (3, 11)):
        raise Ailing(f"Python {version}", "use Python 3.10 or 3.11: make setup PYTHON=python3.11")
    return f"Python {version}"


def check_java() -> str:
    java = java_home()
    return f"Java {java.version} in {java.home} ({java.origin})"


def check_jars(settings: Settings) -> str:
    folders = (settings.jar_folder, default_cache())
    for jar in jars_of(["hudi"]):
        if not any(is_there(jar, folder) for folder in folders):
            where = " or ".join(str(folder) for folder in folders)
            raise Ailing(
                f"{jar.file_name} is not in {where}", "run make setup; the service fetches it at its first start, too"
            )
    return "all there"


def check_settings(settings: Settings) -> str:
    choice = settings.config
    if choice.warnings:
        raise Ailing(f"{choice.sentence}; {'; '.join(choice.warnings)}", "see the message")
    return choice.sentence


def check_home(settings: Settings) -> str:
    prepare_home(settings.home)
    try:
        with TemporaryDirectory(dir=settings.home):
            keep_apart(warehouses_of(settings.all_warehouses), own_paths(settings))
    except OSError as error:
        raise Ailing(
            f"{settings.home} cannot be written: {error}", "give --home another folder, or its user the right"
        ) from error
    return f"{settings.home} can be written, by this user alone"


def check_database(settings: Settings) -> str:
    kind = settings.database_url.partition(":")[0]
    try:
        schema = current(settings.database_url)
    except Exception as error:
        first = str(error).splitlines()[0]
        raise Ailing(
            f"{kind} does not answer: {first}", "start it, or correct --database / LAKEHAND_DATABASE"
        ) from error
    if schema is None:
        return f"{kind} answers; it is empty, lakehand serve fills it"
    if schema != head():
        raise Ailing(f"{kind} has schema {schema}, this version needs {head()}", "run lakehand migrate")
    return f"{kind} answers, schema {schema}"


def no_warehouse() -> str:
    raise Ailing("no warehouse is configured, so no table can be served", "give --warehouse DIR or LAKEHAND_WAREHOUSES")


def check_storage(place: str) -> str:
    from pyarrow.fs import FileSelector, FileSystem, FileType

    location = normalise_prefix(place)
    fix = "create it, or correct --warehouse; object stores need their credentials in the environment"
    try:
        system, path = FileSystem.from_uri(location)
        if system.get_file_info(path).type == FileType.NotFound:
            raise Ailing(f"there is no {location}", fix)
        entries = system.get_file_info(FileSelector(path))
    except (OSError, ValueError) as error:
        raise Ailing(f"{location} cannot be read: {error}", fix) from error
    return f"can be read, {len(entries)} entries"


def check_spark(settings: Settings) -> str:
    """Starts the very driver that the service would, in a folder of its own, and gives it a small job."""
    properties = settings.plugin_configs()["engine", "spark"].properties
    with TemporaryDirectory(prefix="lakehand-doctor-") as folder:
        engine = SparkEngine()
        engine.open(properties, EngineContext(home=Path(folder), formats=("hudi",), jars=settings.jars))
        started = time.monotonic()
        try:
            status = run_probe(engine)
        finally:
            engine.stop(timedelta(0))
    if status.state is not EngineState.SUCCEEDED:
        raise Ailing(f"the job ended {status.state}: {status.message}", "see lakehand doctor's lines above, java first")
    seconds = time.monotonic() - started
    return (
        f"Spark {status.result.get('spark')} counted {status.result.get('rows')} rows, {seconds:.0f} s with its start"
    )


def run_probe(engine: SparkEngine) -> EngineStatus:
    handle = Handle("doctor")
    deadline = time.monotonic() + SPARK_PATIENCE
    engine.submit(
        Work(job="probe", parameters={}, table="none", location=""),
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
            raise Ailing(f"the driver does not start: {engine.launcher.error}", "mend that, java and jars first")
        time.sleep(0.2)
    raise Ailing(
        f"no answer within {SPARK_PATIENCE:.0f} s", "look whether the machine has memory and processors to spare"
    )
