# SPDX-License-Identifier: Apache-2.0
"""Starts the same driver as the service, in a temporary folder: for checks that need Spark."""

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from lakehand.app.settings import Settings
from lakehand.cli.check_results import CheckFailed
from lakehand.domain.operations import Handle
from lakehand.domain.processes import Json
from lakehand.engines.spark.engine import SparkEngine
from lakehand.spi import EngineContext, EngineState, EngineStatus, LeaseGrant, Work

SPARK_TIMEOUT = 180.0  # seconds for Spark to start and count to a thousand, or to ask a catalog
TIME_TO_LIVE = timedelta(minutes=1)
LONGEST_HANDLE = 120  # characters: it is the name of a file


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
