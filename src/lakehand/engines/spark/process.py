# SPDX-License-Identifier: Apache-2.0
"""A driver's process, and what starts it: in the background, one at a time, with a growing delay after failures.

It is alive while its JVM or its Python holds a file lock, which the kernel releases.
"""

import fcntl
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock, Thread

import psutil

from lakehand.engines.spark.command import Command, as_properties_file
from lakehand.engines.spark.spool import Document, SpoolClient

LOG_LIMIT = 16 << 20
TAIL = 2000
STARTING, POLL = 2.0, 0.01  # seconds
LONGEST_DELAY = 60.0
STEADY = 60.0  # seconds of uptime that reset the failure count
MOST_FAILURES = 3


class DriverProcess:
    """At most one driver per home. It outlives the service: own session, no pipes, and it inherits only the lock."""

    def __init__(self, spool: SpoolClient, home: Path, umask: int | None = None) -> None:
        self._spool = spool
        self._home = home
        self._umask = -1 if umask is None else umask  # files of tables keep the umask of the user
        self._probing = Lock()
        self.log = home / "logs" / "driver.log"

    @contextmanager
    def probe(self) -> Iterator[bool]:
        """Whether a driver is alive. No driver can start inside the block while the answer is no."""
        with self._probing, self._spool.lock.open("a") as lock:
            yield not try_lock(lock.fileno(), fcntl.LOCK_EX)

    def is_alive(self) -> bool:
        with self.probe() as is_alive:
            return is_alive

    def start(self, command: Command) -> bool:
        """Start a driver unless one is alive. We take the lock before the JVM exists, and the JVM inherits it."""
        with self._spool.launch.open("a") as launch, self._spool.lock.open("a") as lock:
            fcntl.flock(launch, fcntl.LOCK_EX)
            with self._probing:
                if not try_lock(lock.fileno(), fcntl.LOCK_EX):
                    return False
                self._forget_last_driver()
                fcntl.flock(lock, fcntl.LOCK_SH)
            self._prepare(command)
            child = self._spawn(command, lock.fileno())
            lock.truncate(0)
            lock.write(str(child.pid))
        # Reap the child, or it stays a zombie.
        Thread(target=child.wait, name="driver-wait", daemon=True).start()
        return True

    def _forget_last_driver(self) -> None:
        """While nobody probes, or the new driver would be seen alive with the state of the last one."""
        for file in (self._spool.state, self._spool.stop, self._spool.exit_reason):
            file.unlink(missing_ok=True)

    def _prepare(self, command: Command) -> None:
        shutil.rmtree(self._home / "scratch", ignore_errors=True)
        self.log.parent.mkdir(parents=True, exist_ok=True)
        if self.log.exists() and self.log.stat().st_size > LOG_LIMIT:
            self.log.replace(self.log.with_suffix(".log.1"))
        command.properties_file.touch(mode=0o600)
        command.properties_file.write_text(as_properties_file(command.properties), encoding="utf-8")

    def _spawn(self, command: Command, lock: int) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen(
                command.arguments,
                env=dict(command.environment),
                cwd=self._home,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=(lock,),
                umask=self._umask,
            )

    def kill(self) -> None:
        """Kill the process group, but only if one of its command lines names our folder."""
        try:
            group = int(self._spool.lock.read_text())
        except (OSError, ValueError):
            return
        if group <= 1:  # group 1 would signal every process, and group 0 our own
            return
        if self._is_ours(group):
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)

    def _is_ours(self, group: int) -> bool:
        """A process that was started this moment has no command line yet: it is asked again."""
        deadline = time.monotonic() + STARTING
        while True:
            found = list(command_lines(group))
            if any(str(self._spool.root) in words for words in found):
                return True
            if all(found) or time.monotonic() > deadline:
                return False
            time.sleep(POLL)

    def exit_reason(self) -> str:
        """Why the driver ended: the reason that it wrote, else the end of its log."""
        with suppress(OSError):
            return self._spool.exit_reason.read_text().strip()
        try:
            with self.log.open("rb") as stream:
                stream.seek(max(0, self.log.stat().st_size - TAIL))
                return stream.read().decode(errors="replace").strip()
        except OSError:
            return ""


def command_lines(group: int) -> Iterator[list[str]]:
    """Of the live processes of a group; its leader may be dead."""
    for process in psutil.process_iter():
        with suppress(psutil.Error, ProcessLookupError):
            if os.getpgid(process.pid) == group:
                yield process.cmdline()


def try_lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class Launcher:
    def __init__(
        self, process: DriverProcess, prepare: Callable[[], Command], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._process = process
        self._prepare = prepare
        self._clock = clock
        self._lock = Lock()
        self._thread: Thread | None = None
        self._expected_since: float | None = None  # since when a driver should be alive
        self._not_before = 0.0
        self.failures = 0
        self.restarts = 0
        self.error = ""

    @property
    def is_starting(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    @property
    def is_backing_off(self) -> bool:
        """Several failures in a row, and the next start is not due: accept no more work."""
        return self.failures >= MOST_FAILURES and self._clock() < self._not_before

    def request_start(self) -> None:
        """Start a driver in the background: finding Java and the jars can take long."""
        with self._lock:
            if self.is_starting or self._clock() < self._not_before:
                return
            self._thread = Thread(target=self._start, name="driver-start", daemon=True)
            self._thread.start()

    def wait(self, timeout: float) -> None:
        """Wait for a start in progress."""
        if self._thread is not None:
            self._thread.join(timeout)

    def _start(self) -> None:
        try:
            if self._process.start(self._prepare()):
                self.restarts += self.failures > 0
            with self._lock:
                self._expected_since = self._clock()
        except Exception as error:
            self._failed(f"{type(error).__name__}: {error}")

    def observe(self, is_alive: bool, state: Document) -> None:
        """Count failures and successes; call it about every second."""
        if self.is_starting:
            return
        if is_alive:
            self._expected_since = self._expected_since or self._clock()
            if state and self._clock() - self._expected_since > STEADY:
                self.failures, self.error = 0, ""
            return
        if self._expected_since is not None:
            self._expected_since = None
            if state.get("state") != "stopped":
                self._failed(self._process.exit_reason())

    def _failed(self, error: str) -> None:
        with self._lock:
            self.failures += 1
            self.error = error
            self._not_before = self._clock() + min(2.0 ** (self.failures - 1), LONGEST_DELAY)


class HeartbeatTimer:
    """How long the driver's heartbeat has not changed, by the service's own clock."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._seen: tuple[object, object] | None = None
        self._since = clock()

    def silence(self, is_alive: bool, state: Document) -> float:
        """Seconds since the last new heartbeat; 0 while no driver lives."""
        heartbeat = (state.get("boot"), state.get("beat")) if is_alive else None
        if heartbeat is None or heartbeat != self._seen:
            self._seen, self._since = heartbeat, self._clock()
        return self._clock() - self._since
