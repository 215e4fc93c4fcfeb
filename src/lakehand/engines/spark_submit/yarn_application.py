# SPDX-License-Identifier: Apache-2.0
"""An application whose driver runs in YARN, on a machine that shares nothing with the service but a folder.

No file lock tells whether it lives, and no clock is shared. It lives until it says in its folder that it ends, or until
YARN does not know it any more and its lease is over. Its lease counts from heartbeats that it published itself.
"""

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock, Thread

from lakehand.domain.errors import Unavailable
from lakehand.domain.operations import Handle
from lakehand.engines.spark.command import Command
from lakehand.engines.spark.process import DriverProcess
from lakehand.engines.spark.settings import SparkSettings
from lakehand.engines.spark.spool import SpoolClient
from lakehand.engines.spark_submit import clock
from lakehand.engines.spark_submit.application import Application
from lakehand.engines.spark_submit.cluster_mode import SharedFolder
from lakehand.engines.spark_submit.yarn import Yarn
from lakehand.spi.engines import LeaseGrant

TOKENS_KEPT = 900
IN_DOUBT = 15.0  # seconds without a heartbeat


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    token: str  # as the application published it
    seen_at: float  # by our clock: not before it was published


class YarnProcess(DriverProcess):
    """The process on this machine only submits the application. Both are meant here by alive."""

    def __init__(
        self, spool: SpoolClient, home: Path, umask: int | None, handle: Handle, yarn: Yarn, *, shared: SharedFolder
    ) -> None:
        super().__init__(spool, home, umask)
        self._handle = handle
        self._yarn = yarn
        self._shared = shared
        self._killing = Lock()

    @contextmanager
    def probe(self) -> Iterator[bool]:
        with super().probe() as is_submitting:
            yield is_submitting or self._may_run()

    def is_submitting(self) -> bool:
        with super().probe() as is_submitting:
            return is_submitting

    def kill(self) -> None:
        """Returns at once; call it again while it lives."""
        super().kill()
        Thread(target=self._kill_in_yarn, name=f"kill-{self._handle}", daemon=True).start()

    def _prepare(self, command: Command) -> None:
        """The settings have secrets: they go into the folder that was checked, or nowhere."""
        self._shared.refuse_another()
        super()._prepare(command)

    def _may_run(self) -> bool:
        has_started = self._spool.lock.stat().st_size > 0
        has_ended = self._spool.exit_reason.exists() or self._spool.driver_state().get("state") == "stopped"
        return has_started and not has_ended

    def _kill_in_yarn(self) -> None:
        if self._killing.acquire(blocking=False):
            try:
                self._yarn.kill(self._handle)
            except Unavailable:
                return  # asked again with the next round
            finally:
                self._killing.release()


class YarnApplication(Application):
    process: YarnProcess

    def __init__(self, folder: Path, handle: Handle, umask: int | None, yarn: Yarn, shared: SharedFolder) -> None:
        super().__init__(folder, handle, umask)
        self.process = YarnProcess(self.spool, folder, umask, handle, yarn, shared=shared)
        self._tokens: OrderedDict[str, Heartbeat] = OrderedDict()  # the last one when a token of ours was read
        self._heartbeat = Heartbeat(token="", seen_at=0.0)
        self._lease_ends: float | None = None  # at the latest, by our clock; None: unknown

    def note_token(self, token: str) -> None:
        """Remember which heartbeat it had published by the time of this token. The first answer stays."""
        state = self.spool.driver_state()
        own = f"{state.get('boot')}:{state.get('beat')}"
        if own != self._heartbeat.token:
            self._heartbeat = Heartbeat(token=own, seen_at=clock.now())
        if state.get("state") == "up":
            self._tokens.setdefault(token, self._heartbeat)
        while len(self._tokens) > TOKENS_KEPT:
            self._tokens.popitem(last=False)

    def renew(self, grant: LeaseGrant) -> None:
        """In its own words: it knows when it published that heartbeat, and we know that we saw it later.

        So a renewal that names an old heartbeat does not prolong the lease, as for an application that is dead.
        """
        self._keep(grant)
        if heartbeat := self._tokens.get(grant.heartbeat_token or ""):
            ends = heartbeat.seen_at + grant.time_to_live.total_seconds()
            self._lease_ends = max(ends, self._lease_ends or ends)
            self.spool.renew([self.handle], replace(grant, heartbeat_token=heartbeat.token))

    def watch(self, settings: SparkSettings) -> None:
        super().watch(settings)
        if not self.is_submitted():
            return
        self.tidy()  # YARN has its settings now: secrets need not stay in the folder
        if not self.is_waiting and not self.spool.driver_state():
            self.process.kill()  # its work was canceled while it waits in YARN's queue

    def is_submitted(self) -> bool:
        """It is YARN's alone, and lives."""
        return not self.is_starting and not self.process.is_submitting() and self.process.is_alive()

    def is_in_doubt(self) -> bool:
        """It sends no heartbeats: YARN must be asked."""
        return self._silence > IN_DOUBT and self.is_submitted()

    def note_absence(self, settings: SparkSettings) -> None:
        """YARN does not know it any more. A machine that is cut off may still run it: until its lease is over."""
        grace = settings.lease_grace.total_seconds()
        if self.is_in_doubt() and clock.now() > self._end_of_lease() + grace:
            reason = "YARN does not run it any more"
            if not self.spool.driver_state():  # the log of its submission says why
                reason += f": {self.exit_reason()}"
            self.spool.exit_reason.write_text(f"{reason}\n")

    def _end_of_lease(self) -> float:
        """Without a heartbeat it never had one. Of a lease by an earlier service only the length is known."""
        if self._lease_ends is None:
            has_heartbeat = bool(self.spool.driver_state())
            self._lease_ends = clock.now() + self.spool.time_to_live(self.handle) if has_heartbeat else float("-inf")
        return self._lease_ends

    def _hand_over(self, grant: LeaseGrant) -> None:
        """Nothing yet: its first lease needs its first heartbeat."""
