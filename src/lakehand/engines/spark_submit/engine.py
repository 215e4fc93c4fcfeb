# SPDX-License-Identifier: Apache-2.0
"""The spark-submit engine: one Spark application per work, each a process of its own that outlives the service."""

import logging
import shutil
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from threading import Lock
from typing import Any

from lakehand.domain.errors import Invalid, Unavailable
from lakehand.domain.operations import Handle
from lakehand.engines.spark.command import Command
from lakehand.engines.spark.engine import CLEAN_UP_INTERVAL, STOP_TIMEOUT, with_history
from lakehand.engines.spark.installation import Installation
from lakehand.engines.spark.spool import HANDLE, Document
from lakehand.engines.spark_submit.application import Application, machine_token
from lakehand.engines.spark_submit.settings import Resources, SubmitSettings, read_settings, resource_properties
from lakehand.engines.spark_submit.yarn import SharedFolder, Yarn, YarnApplication, YarnWatch, in_cluster_mode
from lakehand.spi.engines import EngineContext, EngineHealth, EngineState, EngineStatus, ExecuteEngine, LeaseGrant, Work

log = logging.getLogger(__name__)


class SparkSubmitEngine(ExecuteEngine):
    name = "spark-submit"

    settings: SubmitSettings

    def open(self, properties: Mapping[str, str], context: EngineContext) -> None:
        self.settings = read_settings(properties)
        self._umask = context.umask
        home = context.home.absolute()
        self._installation = Installation(context, home)
        shared = self.settings.shared_folder
        self._shared = SharedFolder(shared, home) if shared else None
        self.applications = (self._shared.own if self._shared else home) / "applications"
        self.applications.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._yarn = self._make_yarn()
        self._yarn_watch = YarnWatch(self._yarn, self.settings.spark)
        self._lock = Lock()
        self._known = {one.handle: one for one in self._stored() if one.is_waiting or one.is_busy}
        self._cleaned_up = time.monotonic()

    def close(self) -> None:
        """Applications go on; the next engine with this home finds them."""

    @property
    def capacity(self) -> int:
        return self.settings.applications

    def heartbeat_token(self) -> str | None:
        """By the clock of this machine. An application on another one is renewed with what it published until now."""
        token = machine_token()
        for application in self._in_yarn():
            application.note_token(token)
        return token

    def submit(self, work: Work, handle: Handle, grant: LeaseGrant) -> None:
        if self._shared:
            self._shared.refuse_another()
        try:
            with self._lock:
                application = self._known[handle] = self._find(handle)
                application.put(work, grant)
        except OSError as error:
            raise Unavailable(f"the folder {self.applications} cannot be written: {error}") from error
        self._start_what_can_go()

    def renew(self, handles: Collection[Handle], grant: LeaseGrant) -> None:
        for application in self._existing(handles):
            application.renew(grant)
        self._start_what_can_go()

    def status(self, handles: Collection[Handle]) -> Mapping[Handle, EngineStatus]:
        return {handle: self._status(self._find(handle)) for handle in handles}

    def cancel(self, handle: Handle) -> None:
        for application in self._existing([handle]):
            application.spool.cancel_work(handle)

    def logs(self, handle: Handle, *, offset: int = 0, limit: int = 65536) -> str:
        return self._find(handle).log(offset, limit)

    def forget(self, handles: Collection[Handle]) -> None:
        for application in self._existing(handles):
            application.forget()

    def tend(self) -> None:
        for application in self._active():
            application.watch(self.settings.spark)
            if not application.is_waiting and not application.is_busy:
                application.tidy()
                with self._lock:
                    self._known.pop(application.handle, None)
        self._yarn_watch.check(self._in_yarn())
        self._start_what_can_go()
        self._clean_up()

    def health(self) -> EngineHealth:
        if problem := self._folder_problem():
            return EngineHealth(is_up=False, detail=problem, facts={"master": self.settings.spark.master})
        busy = [one.handle for one in self._active() if one.is_busy]
        waiting = len(self._active()) - len(busy)
        return EngineHealth(
            is_up=True,
            detail=f"{len(busy)} applications run, {waiting} wait",
            facts={"master": self.settings.spark.master, "running": sorted(busy), "waiting": waiting},
        )

    def stop(self, timeout: timedelta = STOP_TIMEOUT) -> None:
        """Stop all applications. Their jobs have until the timeout to finish; then they are killed."""
        deadline = time.monotonic() + timeout.total_seconds()
        for application in self._active():
            application.spool.stop.touch()
        while busy := [one for one in self._active() if one.is_busy]:
            late = time.monotonic() - deadline
            if late > STOP_TIMEOUT.total_seconds():
                raise Unavailable(f"the application {busy[0].handle} cannot be stopped: {busy[0].process.log}")
            for application in busy if late > 0 else ():
                application.process.kill()
            time.sleep(0.05)

    def _status(self, application: Application) -> EngineStatus:
        if problem := self._folder_problem():  # it may run, although it is not there
            return EngineStatus(state=EngineState.UNKNOWN, message=problem)
        if not application.exists:
            return EngineStatus(state=EngineState.ABSENT)
        try:
            return with_history(application.status(), self.settings.spark.history_url)
        except OSError as error:
            return EngineStatus(state=EngineState.UNKNOWN, message=f"its folder cannot be read: {error}")

    def _folder_problem(self) -> str:
        return self._shared.problem() if self._shared else ""

    def _find(self, handle: Handle) -> Application:
        return self._known.get(handle) or self._application(self.applications / handle, handle)

    def _application(self, folder: Path, handle: Handle) -> Application:
        if self._shared is None:
            return Application(folder, handle, self._umask)
        return YarnApplication(folder, handle, self._umask, self._yarn, self._shared)

    def _make_yarn(self) -> Yarn:
        return Yarn()

    def _in_yarn(self) -> list[YarnApplication]:
        return [one for one in self._active() if isinstance(one, YarnApplication)]

    def _existing(self, handles: Collection[Handle]) -> list[Application]:
        """Those that are on disk; whatever waits is known from now on."""
        found = [one for one in map(self._find, handles) if one.exists]
        with self._lock:
            self._known.update({one.handle: one for one in found if one.is_waiting})
        return found

    def _active(self) -> list[Application]:
        with self._lock:
            return list(self._known.values())

    def _stored(self) -> Iterator[Application]:
        for folder in self.applications.iterdir():
            if HANDLE.fullmatch(folder.name):
                application = self._application(folder, Handle(folder.name))
                if application.exists:
                    yield application

    def _start_what_can_go(self) -> None:
        """Oldest first, and no more at once than the settings allow."""
        if self._folder_problem():
            return
        with self._lock:
            busy = {handle for handle, one in self._known.items() if one.is_busy}
            ready = [one for handle, one in self._known.items() if handle not in busy and one.may_start]
            ready.sort(key=lambda one: (one.spool.waiting_item(one.handle).get("at", 0), one.handle))
            for application in ready[: max(0, self.settings.applications - len(busy))]:
                if application.status().state is EngineState.QUEUED:  # else it has died before
                    application.start(self._command)

    def _command(self, application: Application, item: Document) -> Command:
        spark = self.settings.spark
        resources = self._resources(item.get("parameters") or {}, application.handle)
        wanted = resource_properties(
            resources, master=spark.master, queue=str(item.get("queue") or ""), handle=application.handle
        )
        conf = {**spark.conf, "spark.app.name": application.handle, **wanted}
        settings = replace(spark, conf=conf, driver_memory=wanted["spark.driver.memory"])
        command = self._installation.command(
            settings, home=application.folder, spool=application.spool.root, is_once=True
        )
        return in_cluster_mode(command, self.settings.driver_python) if self._shared else command

    def _resources(self, asked: Mapping[str, Any], handle: Handle) -> Resources:
        """Those of the settings where the request's cannot be read: it keeps no other application from starting."""
        bounds = self.settings.bounds
        try:
            return bounds.resources_for(asked)
        except Invalid as error:
            log.warning("what was asked for is left out", extra={"handle": handle, "reason": str(error)})
            return bounds.resources_for({})

    def _clean_up(self) -> None:
        """Remove the folders of applications whose logs are old."""
        if time.monotonic() - self._cleaned_up < CLEAN_UP_INTERVAL:
            return
        self._cleaned_up = time.monotonic()
        oldest = time.time() - self.settings.spark.keep_logs.total_seconds()
        known: set[Path] = {one.folder for one in self._active()}
        for application in self._stored():
            with suppress(OSError):
                if application.folder not in known and last_change(application) < oldest:
                    shutil.rmtree(application.folder)


def last_change(application: Application) -> float:
    """When it last ran: each start and each end rewrites these files."""
    return max(file.stat().st_mtime for file in (application.spool.lock, application.spool.done) if file.exists())
