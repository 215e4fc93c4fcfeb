# SPDX-License-Identifier: Apache-2.0
"""Cluster mode on YARN: applications whose drivers run on machines that share nothing with the service but a folder.

No file lock tells whether such an application lives, and no clock is shared. It lives until it says in its folder that
it ends, or until YARN does not know it any more and its lease is over. Its lease counts from heartbeats that it
published itself. YARN is asked with its own client: that knows the ResourceManagers, their fail-over and Kerberos.
"""

import logging
import os
import subprocess
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock, Thread
from uuid import uuid4

from lakehand.domain.errors import Invalid, Unavailable
from lakehand.domain.operations import Handle
from lakehand.engines.spark.command import Command
from lakehand.engines.spark.process import DriverProcess
from lakehand.engines.spark.settings import SparkSettings
from lakehand.engines.spark.spool import SpoolClient
from lakehand.engines.spark_submit.application import Application, machine_time
from lakehand.spi.engines import LeaseGrant
from lakehand.storage.private_folders import identity_of, refuse_open_folder, refuse_open_parents

log = logging.getLogger(__name__)
CLIENT = "org.apache.hadoop.yarn.client.cli.ApplicationCLI"
TAG = "lakehand"
NOT_OVER = "NEW,NEW_SAVING,SUBMITTED,ACCEPTED,RUNNING"
CLIENT_TIMEOUT = 120.0  # seconds
SHOWN = 500

RunClient = Callable[..., str]
IN_CLUSTER = {
    "spark.submit.deployMode": "cluster",
    "spark.yarn.maxAppAttempts": "1",  # the service decides about another attempt
    "spark.yarn.submit.waitAppCompletion": "false",
}
OF_THIS_MACHINE = ("spark.driver.host", "spark.driver.bindAddress", "spark.local.dir")
MOUNT = "Mount storage there that the NodeManagers have at the same path, with a folder that this user can write to"
TOKENS_KEPT = 900
IN_DOUBT = 15.0  # seconds without a heartbeat
BETWEEN_QUESTIONS = 10.0  # seconds from one question to the next


class Yarn:
    """Applications are named by their handles. Each question starts a JVM for some seconds: do not ask often."""

    def __init__(self, run: RunClient | None = None) -> None:
        self._run = run or run_client

    def running(self) -> Mapping[str, str]:
        """The ids of our applications that wait or run, by handle; of all instances."""
        return parse_list(self._run("application", "-list", "-appTags", TAG, "-appStates", NOT_OVER))

    def kill(self, handle: str) -> None:
        if application := self.running().get(handle):
            self._run("application", "-kill", application)


def run_client(*arguments: str) -> str:
    """What the client prints. Raises Unavailable."""
    # Imported here, because both are also programs (`python -m`) and must not be loaded with the package.
    from lakehand.engines.spark.jars import spark_home
    from lakehand.engines.spark.java import java_home

    settings = [os.environ[name] for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR") if os.environ.get(name)]
    classes = os.pathsep.join([*settings, f"{spark_home()}/jars/*"])
    command = [str(java_home().program), "-Xmx256m", "-cp", classes, CLIENT, *arguments]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=CLIENT_TIMEOUT, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"YARN's client does not answer: {error}") from error
    if done.returncode:
        raise Unavailable(f"YARN's client failed: {done.stderr.strip()[-SHOWN:]}")
    return done.stdout


def parse_list(printed: str) -> dict[str, str]:
    """Lines with tabs between the columns: id, name, type ..."""
    rows = [line.split("\t") for line in printed.splitlines()]
    return {
        row[1].strip(): row[0].strip() for row in rows if len(row) > 2 and row[0].strip().startswith("application_")
    }


def in_cluster_mode(command: Command, driver_python: str) -> Command:
    """The same application, with its driver in YARN."""
    kept = {key: value for key, value in command.properties.items() if key not in OF_THIS_MACHINE}
    python = {"spark.pyspark.driver.python": driver_python} if driver_python else {}
    return replace(command, arguments=[*command.arguments, "--remote"], properties={**kept, **python, **IN_CLUSTER})


class SharedFolder:
    """Secrets are written into it, and work is read from it: it must be as private as the home, and stay the same."""

    def __init__(self, shared: Path, home: Path) -> None:
        refuse_unsafe(shared)
        self.shared = shared
        self.own = own_folder(shared, home)
        self._identities = {folder: identity_of(folder) for folder in (self.shared, self.own)}

    def problem(self) -> str:
        """Why nothing is written there now: a storage that is not mounted any more, or another folder in its place."""
        try:
            changed = [folder for folder, known in self._identities.items() if identity_of(folder) != known]
        except OSError as error:
            return f"shared-folder {self.shared} cannot be read: {error}"
        return f"{changed[0]} is not the folder that the service was started with" if changed else ""

    def refuse_another(self) -> None:
        if problem := self.problem():
            raise Unavailable(f"{problem}: nothing is written there. Mount the right storage, or restart the service")


def refuse_unsafe(shared: Path) -> None:
    name = f"shared-folder {shared} of the spark-submit engine"
    try:
        refuse_open_folder(shared, name, "name another folder")
        refuse_open_parents(shared, name)
    except OSError as error:
        raise Invalid(f"{name} cannot be used: {error.strerror}. {MOUNT}") from error
    if not os.access(shared, os.W_OK | os.X_OK):
        raise Invalid(f"{name} cannot be written. {MOUNT}")


def own_folder(shared: Path, home: Path) -> Path:
    """One folder per home, so that instances may share the storage."""
    file = home / "shared-folder-name"
    if not file.exists():
        draft = file.with_suffix(".new")
        draft.write_text(uuid4().hex)
        draft.replace(file)
    folder = shared / file.read_text().strip()
    folder.mkdir(mode=0o700, exist_ok=True)
    refuse_open_folder(folder, f"the folder {folder}", "remove it")
    return folder


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
            self._heartbeat = Heartbeat(token=own, seen_at=machine_time())
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
        if self.is_in_doubt() and machine_time() > self._end_of_lease() + grace:
            reason = "YARN does not run it any more"
            if not self.spool.driver_state():  # the log of its submission says why
                reason += f": {self.exit_reason()}"
            self.spool.note_exit(reason)

    def _end_of_lease(self) -> float:
        """Without a heartbeat it never had one. Of a lease by an earlier service only the length is known."""
        if self._lease_ends is None:
            has_heartbeat = bool(self.spool.driver_state())
            self._lease_ends = machine_time() + self.spool.time_to_live(self.handle) if has_heartbeat else float("-inf")
        return self._lease_ends

    def _hand_over(self, grant: LeaseGrant) -> None:
        """Nothing yet: its first lease needs its first heartbeat."""


class YarnWatch:
    def __init__(self, yarn: Yarn, settings: SparkSettings, pause: float = BETWEEN_QUESTIONS) -> None:
        self._yarn = yarn
        self._settings = settings
        self._pause = pause
        self._thread: Thread | None = None
        self._not_before = 0.0

    @property
    def is_asking(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def check(self, applications: Sequence[YarnApplication]) -> None:
        """Returns at once. Those that were in doubt before the question are told its answer."""
        if self.is_asking or time.monotonic() < self._not_before:
            return
        if doubtful := [one for one in applications if one.is_in_doubt()]:
            self._thread = Thread(target=self._ask, args=(doubtful,), name="yarn-watch", daemon=True)
            self._thread.start()

    def _ask(self, doubtful: Sequence[YarnApplication]) -> None:
        try:
            running = self._yarn.running()
            for application in doubtful:
                if application.handle not in running:
                    application.note_absence(self._settings)
        except (OSError, Unavailable) as error:
            log.warning("YARN cannot be asked", extra={"reason": str(error)})
        finally:
            self._not_before = time.monotonic() + self._pause
