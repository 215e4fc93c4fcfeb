# SPDX-License-Identifier: Apache-2.0
"""The program of one work: runs the job in its main thread while a guard watches the lease and requests to stop."""

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from threading import Event, Thread
from types import FrameType
from typing import Any

from lakehand.jobs.job import Job, JobCanceled, Record
from subprocess_engine import clocks
from subprocess_engine.folder import Folder

INTERVAL = 0.1  # seconds between two checks of the guard
GRACE = 3.0  # seconds for a job to stop, before its process ends
CANCELED = "canceled"
LEASE_EXPIRED = "lease-expired"


class NoSpark:
    """Stands in for a session."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("the subprocess engine has no Spark session: this job needs the spark engine")


class FolderRecord(Record):
    """Stores what the job reports."""

    def __init__(self, folder: Folder) -> None:
        super().__init__()
        self.folder = folder

    def stop_reason(self) -> str:
        if clocks.now() >= self.folder.lease_end:
            return LEASE_EXPIRED
        return CANCELED if self.folder.is_canceled else ""

    def publish(self) -> None:
        self.folder.write("progress", {"phase": self.phase, "notes": dict(self.notes)})

    def write(self, text: str) -> None:
        sys.stdout.write(f"{text}\n")  # which is the log


def job_called(name: str) -> Callable[[Job], Any]:
    module, colon, function = name.partition(":")
    if not colon:
        raise LookupError(f"{name!r} is a job for Spark: this engine runs module:function of an installed plugin")
    found: Callable[[Job], Any] = getattr(import_module(module), function)
    return found


def watch(record: FolderRecord, is_over: Event) -> None:
    """Interrupt the main thread when it must stop, and end the process when it does not listen."""
    while not is_over.wait(INTERVAL):
        if record.stop_reason():
            os.kill(os.getpid(), signal.SIGTERM)
            if not is_over.wait(GRACE):
                os._exit(1)
            return


def interrupt(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise JobCanceled


def outcome_of(order: dict[str, Any], record: FolderRecord) -> dict[str, Any]:
    try:
        record.write(f"{order['job']} on {order['table']} at {order['location']}")
        session: Any = NoSpark()
        job = Job(session=session, parameters=dict(order["parameters"]), handle=order["handle"], record=record)
        job.check()
        return {"state": "succeeded", "result": job_called(order["job"])(job)}
    except BaseException as error:
        return failed(error, record)


def failed(error: BaseException, record: FolderRecord) -> dict[str, Any]:
    traceback.print_exc()
    reason = record.stop_reason()
    if reason == LEASE_EXPIRED:
        message = "the lease ran out before the job ended"
        return {"state": "failed", "error_class": LEASE_EXPIRED, "message": message}
    if reason == CANCELED:
        return {"state": "canceled", "error_class": CANCELED, "message": "stopped as asked"}
    return {"state": "failed", "error_class": type(error).__name__, "message": str(error)}


def main() -> None:
    folder = Folder(Path(sys.argv[1]))
    record, is_over, began = FolderRecord(folder), Event(), time.monotonic()
    signal.signal(signal.SIGTERM, interrupt)
    Thread(target=watch, args=(record, is_over), daemon=True).start()
    outcome = outcome_of(dict(folder.read("order")), record)
    is_over.set()
    outcome["seconds"] = round(time.monotonic() - began, 3)
    record.write(f"{outcome['state']} after {outcome['seconds']} s")
    folder.write("outcome", outcome)


if __name__ == "__main__":
    main()
