# SPDX-License-Identifier: Apache-2.0
"""The spark-submit engine as the contract of engines sees it, whatever its applications are."""

from collections.abc import Callable, Mapping
from pathlib import Path

import psutil

from lakehand.domain.operations import Handle
from lakehand.engines.spark_submit import SparkSubmitEngine
from lakehand.engines.spark_submit.application import Application
from lakehand.spi import EngineContext, Json
from lakehand.testing import EngineUnderTest, eventually

PROPERTIES = {"master": "local[2]", "driver-memory": "600m", "lease-grace": "2s", "max-applications": "3"}


class SparkSubmitUnderTest(EngineUnderTest):
    engine: SparkSubmitEngine
    clock_survives_a_crash = True
    many = 4

    def __init__(
        self,
        home: Path,
        properties: Mapping[str, str] | None = None,
        make: Callable[[], SparkSubmitEngine] = SparkSubmitEngine,
    ) -> None:
        self.home = home
        self.make = make
        self.properties = {**PROPERTIES, **(properties or {})}
        self.reopen()

    def reopen(self) -> None:
        self.engine = self.make()
        self.engine.open(self.properties, EngineContext(home=self.home))

    def crash(self) -> None:
        """Only what runs a work: an application that waits for nothing ends by itself."""
        for application in self.running():
            jvm_of(application).kill()
            eventually(lambda process=application.process: not process.is_alive())  # type: ignore[misc]
        self.reopen()

    def running(self) -> list[Application]:
        return [one for one in self.engine._active() if any(one.spool.running.iterdir())]

    def application(self, handle: Handle) -> Application:
        return self.engine._find(handle)

    def has_begun(self, progress: Mapping[str, Json]) -> bool:
        is_counting = (progress.get("phase"), progress.get("tasks_total")) == ("counting", 400)
        return is_counting and super().has_begun(progress)

    def runs(self, handle: Handle) -> int:
        return self.engine.logs(handle).count("probe on db.probe")

    def cancel_all(self) -> None:
        for application in self.engine._active():
            self.engine.cancel(application.handle)


def jvm_of(application: Application) -> psutil.Process:
    """By its number, which may be another process's by now, and by its command line, which tells."""
    found = psutil.Process(int(application.spool.driver_state()["jvm"]))
    assert str(application.spool.root) in found.cmdline(), found
    return found
