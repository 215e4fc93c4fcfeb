# SPDX-License-Identifier: Apache-2.0
"""The engine: one folder and one process per work. All of its state is in the folders."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Lock, Thread

from lakehand.spi import (
    EngineContext,
    EngineHealth,
    EngineState,
    EngineStatus,
    ExecuteEngine,
    Handle,
    Invalid,
    LeaseGrant,
    Unavailable,
    Work,
)
from subprocess_engine import clocks
from subprocess_engine.folder import Folder

LEAST = clocks.SECOND // 2  # a lease with less left than this is not worth a start
KEEP_LOGS = 14 * 86400.0  # seconds
HANDLE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,119}")
PROPERTIES = frozenset({"slots"})


class SubprocessEngine(ExecuteEngine):
    name = "subprocess"

    def open(self, properties: Mapping[str, str], context: EngineContext) -> None:
        if unknown := sorted(set(properties) - PROPERTIES):
            raise Invalid(f"the subprocess engine has no property {unknown[0]!r}; it has {', '.join(PROPERTIES)}")
        self.slots = int(properties.get("slots", os.cpu_count() or 1))
        self.works, self.log_folder = context.home.absolute() / "works", context.home.absolute() / "logs"
        for folder in (self.works, self.log_folder):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._starting = Lock()

    def close(self) -> None:
        """The programs go on, and the next engine with this home finds them."""

    @property
    def capacity(self) -> int:
        return 2 * self.slots

    def heartbeat_token(self) -> str:
        return clocks.heartbeat_token()

    def submit(self, work: Work, handle: Handle, grant: LeaseGrant) -> None:
        order = {
            "handle": handle, "job": work.job, "parameters": work.parameters, "table": work.table,
            "location": work.location, "at": time.time_ns(),
        }  # fmt: skip
        try:
            folder = self._folder(handle)
            if not folder.is_there:
                folder.create(order, clocks.end_of(grant))
            self._start_what_can_go()
        except OSError as error:
            raise Unavailable(f"{self.works} cannot be written: {error}") from error

    def renew(self, handles: Collection[Handle], grant: LeaseGrant) -> None:
        end = clocks.end_of(grant)
        for folder in (self._folder(handle) for handle in handles):
            if folder.is_there:
                folder.lengthen(end)
        self._start_what_can_go()

    def status(self, handles: Collection[Handle]) -> Mapping[Handle, EngineStatus]:
        return {handle: self._status(self._folder(handle)) for handle in handles}

    def cancel(self, handle: Handle) -> None:
        """Work that was not started ends here; a program that runs reads the request."""
        folder = self._folder(handle)
        if not folder.is_there:
            return
        folder.ask_to_cancel()
        with folder.locked() as lock:
            if lock is not None and not folder.is_started:
                folder.write("outcome", {"state": "canceled", "message": "stopped before it was started"})

    def logs(self, handle: Handle, *, offset: int = 0, limit: int = 65536) -> str:
        with suppress(FileNotFoundError), self._log(handle).open("rb") as stream:
            stream.seek(max(offset, 0))
            return stream.read(limit).decode("ascii", errors="replace")
        return ""

    def forget(self, handles: Collection[Handle]) -> None:
        for folder in (self._folder(handle) for handle in handles):
            if folder.is_there and (folder.read("outcome") or not folder.is_running()):
                folder.remove()

    def tend(self) -> None:
        self._start_what_can_go()
        for log in self.log_folder.iterdir():
            if log.stat().st_mtime < time.time() - KEEP_LOGS:
                log.unlink(missing_ok=True)

    def health(self) -> EngineHealth:
        running = sum(1 for _ in self._running())
        return EngineHealth(is_up=True, detail=f"{running} of {self.slots} slots are taken", facts={"running": running})

    def _folder(self, handle: Handle) -> Folder:
        if not HANDLE.fullmatch(handle):
            raise Invalid(f"{handle!r} cannot be a handle: letters, digits, dot, dash and underscore only")
        return Folder(self.works / handle)

    def _log(self, handle: Handle) -> Path:
        return self.log_folder / f"{self._folder(handle).root.name}.log"

    def _folders(self) -> Iterator[Folder]:
        """Oldest first, without drafts."""
        found = [Folder(path) for path in self.works.iterdir() if not path.name.startswith(".")]
        return iter(sorted(found, key=lambda folder: str(folder.read("order").get("at"))))

    def _running(self) -> Iterator[Folder]:
        for folder in self._folders():
            with suppress(FileNotFoundError):  # forgotten meanwhile
                if folder.is_started and not folder.read("outcome") and folder.is_running():
                    yield folder

    def _start_what_can_go(self) -> None:
        with self._starting:
            free = self.slots - sum(1 for _ in self._running())
            for folder in self._folders():
                if free > 0 and not folder.is_started and folder.lease_end - clocks.now() > LEAST:
                    with suppress(FileNotFoundError):  # forgotten meanwhile
                        free -= self._start(folder)

    def _start(self, folder: Folder) -> bool:
        """Intent before effect: once ``started`` is there, a work without a living program is lost, not run again."""
        with folder.locked() as lock:
            if lock is None or folder.is_started or folder.read("outcome"):
                return False
            folder.mark_started()
            child = self._spawn(folder, lock)
        # Whoever has a child must wait for it, or it stays a zombie after its death.
        Thread(target=child.wait, name=folder.root.name, daemon=True).start()
        return True

    def _spawn(self, folder: Folder, lock: int) -> subprocess.Popen[bytes]:
        """The lock passes to the program by inheritance, so there is no moment in which nobody holds it."""
        log = self.log_folder / f"{folder.root.name}.log"
        with log.open("ab") as stream:
            return subprocess.Popen(
                [sys.executable, "-m", "subprocess_engine.program", str(folder.root)],
                env=environment(os.environ), cwd=self.works, stdin=subprocess.DEVNULL, stdout=stream,
                stderr=subprocess.STDOUT, start_new_session=True, pass_fds=(lock,),
            )  # fmt: skip

    def _status(self, folder: Folder) -> EngineStatus:
        try:
            status = status_of(folder)
            return replace(status, message=self._last_words(folder)) if status.state is EngineState.LOST else status
        except (OSError, ValueError) as error:
            if not folder.is_there:
                return EngineStatus(state=EngineState.ABSENT)
            return EngineStatus(state=EngineState.UNKNOWN, message=f"{folder.root} cannot be read: {error}")

    def _last_words(self, folder: Folder) -> str:
        lines = self.logs(Handle(folder.root.name)).splitlines()
        return f"its process ended without a result; its log ends with: {lines[-1] if lines else 'nothing'}"


def environment(inherited: Mapping[str, str]) -> dict[str, str]:
    """Settings of the service, tokens among them, are none of a job's business."""
    kept = {key: value for key, value in inherited.items() if not key.startswith("LAKEHAND_")}
    return {**kept, "PYTHONIOENCODING": "ascii:backslashreplace", "PYTHONUNBUFFERED": "1"}


def status_of(folder: Folder) -> EngineStatus:
    if not folder.is_there:
        return EngineStatus(state=EngineState.ABSENT)
    is_started = folder.is_started
    is_running = is_started and folder.is_running()  # asked before the outcome, which is written before the end
    if outcome := folder.read("outcome"):
        return outcome_of(outcome, folder)
    if not is_started:
        return EngineStatus(state=EngineState.QUEUED)
    if is_running:
        return EngineStatus(state=EngineState.RUNNING, progress=folder.read("progress"))
    return EngineStatus(state=EngineState.LOST, progress=folder.read("progress"))


def outcome_of(outcome: Mapping[str, object], folder: Folder) -> EngineStatus:
    seconds = outcome.get("seconds")
    return EngineStatus(
        state=EngineState(str(outcome["state"])),
        progress=folder.read("progress"),
        result=outcome.get("result") or {},  # type: ignore[arg-type]
        error_class=str(outcome.get("error_class") or ""),
        message=str(outcome.get("message") or ""),
        seconds=seconds if isinstance(seconds, float) else None,
    )
