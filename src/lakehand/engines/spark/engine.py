# SPDX-License-Identifier: Apache-2.0
"""The spark engine: passes work to one warm driver through a spool folder, and starts that driver when needed."""

import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import timedelta
from threading import Lock
from urllib.parse import quote

from lakehand.domain.errors import Unavailable
from lakehand.domain.operations import Handle
from lakehand.engines.spark.command import Command, job_code
from lakehand.engines.spark.installation import Installation
from lakehand.engines.spark.process import DriverProcess, HeartbeatTimer, Launcher
from lakehand.engines.spark.settings import APPLICATION, SparkSettings, read_settings
from lakehand.engines.spark.spool import SpoolClient, SpoolView
from lakehand.spi.engines import EngineContext, EngineHealth, EngineState, EngineStatus, ExecuteEngine, LeaseGrant, Work

SILENT = 30.0  # seconds without a heartbeat, after which the state of running work is unknown
CLEAN_UP_INTERVAL = 3600.0  # seconds; also from the start to the first clean-up
RESULT_AGE = timedelta(days=30)
STOP_TIMEOUT = timedelta(seconds=30)


class SparkEngine(ExecuteEngine):
    name = "spark"

    settings: SparkSettings

    def open(self, properties: Mapping[str, str], context: EngineContext) -> None:
        self.settings = read_settings(properties)
        self.home = context.home.absolute()
        self.installation = Installation(context, self.home)
        self.spool = SpoolClient(self.home / "spool")
        self.spool.make()
        self.process = DriverProcess(self.spool, self.home, context.umask)
        self.launcher = Launcher(self.process, self._command)
        self._heartbeat = HeartbeatTimer(time.monotonic)
        self._silence = 0.0
        self._cleaned_up = time.monotonic()
        self._submitting = Lock()
        self._dismiss_old_driver()

    def close(self) -> None:
        """The driver keeps running; the next engine with this home finds it."""

    @property
    def capacity(self) -> int:
        return 2 * self.settings.threads

    def heartbeat_token(self) -> str | None:
        state = self.spool.driver_state()
        if state.get("state") != "up" or not self.process.is_alive():
            return None
        return f"{state['boot']}:{state['beat']}"

    def submit(self, work: Work, handle: Handle, grant: LeaseGrant) -> None:
        is_alive = self.process.is_alive()
        if self.launcher.is_backing_off and not is_alive:
            raise Unavailable(f"the Spark driver does not start: {self.launcher.error}")
        try:
            with self._submitting:
                if not self.spool.holds(handle):
                    self.spool.put(work, handle, grant)
        except OSError as error:
            raise Unavailable(f"the spool folder {self.spool.root} cannot be written: {error}") from error
        if not is_alive:
            self.launcher.request_start()

    def renew(self, handles: Collection[Handle], grant: LeaseGrant) -> None:
        """Does nothing if the token is of an earlier driver."""
        boot = (grant.heartbeat_token or "").partition(":")[0]
        if handles and boot and boot == self.spool.driver_state().get("boot"):
            self.spool.renew(handles, grant)

    def status(self, handles: Collection[Handle]) -> Mapping[Handle, EngineStatus]:
        try:
            with self.process.probe() as is_alive:
                view = self.spool.view(handles)
        except OSError as error:
            unknown = EngineStatus(state=EngineState.UNKNOWN, message=f"the spool folder cannot be read: {error}")
            return dict.fromkeys(handles, unknown)
        is_silent = self._silence > SILENT
        found = {handle: status_of(handle, view, is_alive=is_alive, is_silent=is_silent) for handle in handles}
        return {handle: with_history(status, self.settings.history_url) for handle, status in found.items()}

    def cancel(self, handle: Handle) -> None:
        self.spool.cancel_work(handle)

    def logs(self, handle: Handle, *, offset: int = 0, limit: int = 65536) -> str:
        return self.spool.log_tail(handle, offset, limit)

    def forget(self, handles: Collection[Handle]) -> None:
        with self.process.probe() as is_alive:
            for handle in handles:
                self.spool.forget(handle, is_driver_dead=not is_alive)

    def tend(self) -> None:
        self._dismiss_old_driver()
        is_alive, state = self.process.is_alive(), self.spool.driver_state()
        self.launcher.observe(is_alive, state)
        self._silence = self._heartbeat.silence(is_alive, state)
        limit = self.settings.hang_timeout if state else self.settings.start_timeout
        if is_alive and self._silence > limit.total_seconds():
            self.process.kill()
        # The next driver also releases the locks of one that died: its writers wait for them.
        if not is_alive and (self.spool.has_work() or self.spool.has_locks()):
            self.launcher.request_start()
        self._clean_up()

    def health(self) -> EngineHealth:
        is_alive, state = self.process.is_alive(), self.spool.driver_state()
        launcher = self.launcher
        facts = {key: state[key] for key in SHOWN if key in state} if is_alive else {}
        return EngineHealth(
            is_up=is_alive and bool(state) and self._silence <= SILENT,
            detail=self._detail(is_alive, is_up=bool(state)),
            restarts=launcher.restarts,
            facts={**facts, "master": self.settings.master, "failures": launcher.failures},
        )

    def warm(self) -> None:
        """Start the driver before there is work. Returns at once."""
        if not self.process.is_alive():
            self.launcher.request_start()

    def stop(self, timeout: timedelta = STOP_TIMEOUT) -> None:
        """Stop the driver. Running jobs have until the timeout to finish; then it is killed."""
        deadline = time.monotonic() + timeout.total_seconds()
        self.launcher.wait(timeout.total_seconds())
        self.spool.stop.touch()
        while self.process.is_alive():
            late = time.monotonic() - deadline
            if late > STOP_TIMEOUT.total_seconds():
                raise Unavailable(f"the Spark driver cannot be stopped; its log is {self.process.log}")
            if late > 0:
                self.process.kill()
            time.sleep(0.05)

    def _detail(self, is_alive: bool, *, is_up: bool) -> str:
        if is_alive and self._silence > SILENT:
            return f"the driver has sent no heartbeat for {self._silence:.0f} s"
        if is_alive:
            return "the driver is up" if is_up else "the driver is starting"
        if self.launcher.failures:
            return f"the driver died {self.launcher.failures} times in a row: {self.launcher.error}"
        return "no driver is running; it starts when there is work"

    def _dismiss_old_driver(self) -> None:
        """One of another version finishes what it runs. New work waits for the next driver, which has our jobs."""
        state = self.spool.driver_state()
        if state.get("state") == "up" and state.get("code") != job_code() and self.process.is_alive():
            self.spool.stop.touch()

    def _command(self) -> Command:
        return self.installation.command(self.settings, home=self.home, spool=self.spool.root)

    def _clean_up(self) -> None:
        if time.monotonic() - self._cleaned_up > CLEAN_UP_INTERVAL:
            self._cleaned_up = time.monotonic()
            ages = {self.spool.logs: self.settings.keep_logs, self.spool.done: RESULT_AGE}
            self.spool.clean_up(ages, time.time())


OUTCOMES = frozenset(str(state) for state in EngineState if state.is_over)
SHOWN = ("boot", "pid", "jvm", "application", "started_at", "threads", "running", "waiting", "rss_mb", "leaving")


def status_of(handle: Handle, view: SpoolView, *, is_alive: bool, is_silent: bool) -> EngineStatus:
    """From the files, latest stage first. If the driver died, the outcome of running work is unknown: LOST."""
    if handle in view.done:
        return outcome_of(view.done[handle])
    if handle not in view.running:
        return EngineStatus(state=EngineState.QUEUED if handle in view.waiting else EngineState.ABSENT)
    if not is_alive:
        state, message = EngineState.LOST, "the driver died while it was running"
    elif is_silent:
        state, message = EngineState.UNKNOWN, "the driver sends no heartbeat"
    else:
        state, message = EngineState.RUNNING, ""
    running = view.running[handle]
    progress = running.get("progress") or {}
    return with_application(EngineStatus(state=state, progress=progress, message=message), running)


def outcome_of(done: Mapping[str, object]) -> EngineStatus:
    if done.get("state") not in OUTCOMES:
        return EngineStatus(state=EngineState.LOST, message="the result cannot be read")
    status = EngineStatus(
        state=EngineState(str(done["state"])),
        progress=done.get("progress") or {},  # type: ignore[arg-type]
        result=done.get("result") or {},  # type: ignore[arg-type]
        error_class=str(done.get("error_class") or ""),
        message=str(done.get("message") or ""),
        seconds=done.get("seconds"),  # type: ignore[arg-type]
    )
    return with_application(status, done)


def with_application(status: EngineStatus, document: Mapping[str, object]) -> EngineStatus:
    """With the Spark application that runs it, or ran it. A driver of an earlier version does not say it."""
    application, url = document.get("application"), document.get("application_url")
    return replace(status, external_id=str(application or ""), external_url=str(url or ""))


def with_history(status: EngineStatus, history_url: str) -> EngineStatus:
    """With a page that outlives the application, whose own UI ends with it."""
    if not history_url or not status.external_id:
        return status
    return replace(status, external_url=history_url.replace(APPLICATION, quote(status.external_id, safe="")))
