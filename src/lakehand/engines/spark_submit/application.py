# SPDX-License-Identifier: Apache-2.0
"""One application: a folder with a spool for one work, and the process that runs it, found again by its handle.

It is younger than the lease of its work, so it cannot have published a heartbeat for it. But it is a child of this
machine's service, and all processes of a machine share one clock that no one sets: heartbeat tokens come from that
clock, and ``MachineClock`` in ``jobs/leases.py`` reads them.
"""

import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Thread

from lakehand.domain.errors import LakehandError
from lakehand.domain.operations import Handle
from lakehand.engines.spark.command import Command
from lakehand.engines.spark.engine import SILENT, status_of
from lakehand.engines.spark.process import DriverProcess, HeartbeatTimer
from lakehand.engines.spark.settings import SparkSettings
from lakehand.engines.spark.spool import Document, SpoolClient, checked
from lakehand.spi.engines import EngineState, EngineStatus, LeaseGrant, Work

Prepare = Callable[["Application", Document], Command]
LONGEST_REASON = 500
BOOT_ID, TIME_NAMESPACE = "/proc/sys/kernel/random/boot_id", "/proc/self/ns/time"


class Application:
    """Started at most once for its work, unless it left because nobody renewed the lease."""

    def __init__(self, folder: Path, handle: Handle, umask: int | None) -> None:
        self.handle = checked(handle)
        self.folder = folder
        self.spool = SpoolClient(folder / "spool")
        self.process: DriverProcess = DriverProcess(self.spool, folder, umask)
        self._grant: LeaseGrant | None = None
        self._starter: Thread | None = None
        self._timer = HeartbeatTimer(time.monotonic)
        self._silence = 0.0

    @property
    def exists(self) -> bool:
        return self.spool.root.is_dir()

    @property
    def is_starting(self) -> bool:
        return self._starter is not None and self._starter.is_alive()

    @property
    def is_busy(self) -> bool:
        """It has, or will have, a process."""
        return self.is_starting or self.process.is_alive()

    @property
    def is_waiting(self) -> bool:
        return self.spool.has_work()

    @property
    def may_start(self) -> bool:
        """Work without a lease would only wait in the application: it waits here."""
        return self._grant is not None and machine_time() < end_of(self._grant) and self.is_waiting

    def put(self, work: Work, grant: LeaseGrant) -> None:
        self.spool.make()
        if not self.spool.holds(self.handle):
            self.spool.put(work, self.handle, grant)
        self._keep(grant)

    def renew(self, grant: LeaseGrant) -> None:
        """What comes before the process is there is kept until then."""
        self._keep(grant)
        if self.process.is_alive():
            self.spool.renew([self.handle], grant)

    def start(self, prepare: Prepare) -> None:
        """In the background: finding Java and the jars can take long."""
        self._starter = Thread(target=self._start, args=(prepare,), name=f"start-{self.handle}", daemon=True)
        self._starter.start()

    def status(self) -> EngineStatus:
        """From its files alone: neither an exit code nor the cluster knows whether the work was done."""
        with self.process.probe() as is_alive:
            self._settle(is_alive)
            view = self.spool.view([self.handle])
        status = status_of(self.handle, view, is_alive=is_alive, is_silent=self._silence > SILENT)
        if status.state is EngineState.LOST and self.handle in view.running:
            return replace(status, message=f"the application ended while it ran: {self.exit_reason()}")
        return status

    def watch(self, settings: SparkSettings) -> None:
        """Kill a process that sends no heartbeat: its work is lost then, and can be repeated."""
        is_alive, state = self.process.is_alive(), self.spool.driver_state()
        self._silence = self._timer.silence(is_alive, state)
        limit = settings.hang_timeout if state else settings.start_timeout
        if is_alive and self._silence > limit.total_seconds():
            self.process.kill()

    def log(self, offset: int, limit: int) -> str:
        """What the attempt wrote; as long as that is nothing, what Spark wrote."""
        if (self.spool.logs / f"{self.handle}.log").exists() or not self.process.log.exists():
            return self.spool.log_tail(self.handle, offset, limit)
        with self.process.log.open("rb") as stream:
            stream.seek(max(offset, 0))
            return stream.read(limit).decode("ascii", errors="replace")

    def forget(self) -> None:
        with self.process.probe() as is_alive:
            self.spool.forget(self.handle, is_driver_dead=not is_alive)

    def tidy(self) -> None:
        """Its process is gone: so may go its shuffle files and its settings, secrets among them."""
        shutil.rmtree(self.folder / "scratch", ignore_errors=True)
        with suppress(OSError):
            (self.folder / "spark.properties").unlink(missing_ok=True)

    def exit_reason(self) -> str:
        lines = self.process.exit_reason().splitlines() or ["it left no reason"]
        return lines[-1][:LONGEST_REASON]

    def _keep(self, grant: LeaseGrant) -> None:
        if self._grant is None or end_of(grant) > end_of(self._grant):
            self._grant = grant

    def _start(self, prepare: Prepare) -> None:
        try:
            item = self.spool.waiting_item(self.handle)
            if item and self.process.start(prepare(self, item)) and self._grant is not None:
                self._hand_over(self._grant)
        except Exception as error:
            code = error.code if isinstance(error, LakehandError) else type(error).__name__
            self._fail(code, f"the application could not be started: {error}")

    def _hand_over(self, grant: LeaseGrant) -> None:
        self.spool.renew([self.handle], grant)

    def _settle(self, is_alive: bool) -> None:
        """Work whose application died before it began has failed, and may be tried again."""
        if is_alive or self.is_starting or not self.is_waiting:
            return
        has_started = self.spool.lock.stat().st_size > 0
        if has_started and self.spool.driver_state().get("state") != "stopped":
            self._fail("application-died", f"the application ended before it began: {self.exit_reason()}")

    def _fail(self, error_class: str, message: str) -> None:
        self.spool.withdraw(self.handle, {"state": "failed", "error_class": error_class, "message": message})


def machine_time() -> float:
    """Seconds on the clock that also runs while the machine sleeps, where there is one."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


def machine() -> str:
    boot = Path(BOOT_ID).read_text().strip() if Path(BOOT_ID).exists() else os.uname().nodename
    namespace = os.readlink(TIME_NAMESPACE) if os.path.lexists(TIME_NAMESPACE) else ""  # noqa: PTH115
    return f"{boot}-{''.join(filter(str.isdecimal, namespace))}"


def machine_token() -> str:
    """Rounded down: a lease that counts from it can only end earlier."""
    return f"{machine()}:{int(machine_time() * 1000) / 1000:.3f}"


def end_of(grant: LeaseGrant) -> float:
    """When the lease is over; in the past for a token that is not of this machine."""
    name, _, seconds = (grant.heartbeat_token or "").rpartition(":")
    is_ours = name == machine() and seconds.replace(".", "", 1).isdecimal()
    return float(seconds) + grant.time_to_live.total_seconds() if is_ours else float("-inf")
