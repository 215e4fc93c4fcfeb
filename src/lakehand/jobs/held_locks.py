# SPDX-License-Identifier: Apache-2.0
"""Lock files that a driver held when it died, released by the next driver.

Hudi's file lock is an empty file, which does not say whose it is, and blocks all writers of its table until it expires.
So each attempt stores where its lock file is (``locks/HANDLE.json``), and Hudi's own log of its locks, with the time
and the thread of the attempt, goes to ``locks/log``. A file that is no younger than a moment at which our thread held
the lock is the one that it held: whoever takes the lock later makes a new file.
"""

import json
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError

from lakehand.jobs.spark import jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOG, SUFFIX = "log", ".json"
LOGGER = "org.apache.hudi.client.transaction.TransactionManager"
TAKEN, RELEASED = "State change started", "State change ended"  # as Hudi logs it, right after the one and the other
PATTERN = "%d{UNIX_MILLIS} %t %.-20m%n"
_LINE = re.compile(r"(\d+) (\S+) State change (started|ended)")


def thread_of(handle: str) -> str:
    """The name of the Java thread of an attempt."""
    return f"lakehand-{handle}"


def log_locks(session: "SparkSession", folder: Path) -> None:
    """Each line is in the file before Hudi goes on. Without the log, locks of a dead driver expire as ever."""
    try:
        add_log(jvm(session).org.apache.logging.log4j, str(folder / LOG))
    except Py4JError as error:
        sys.stderr.write(f"lakehand: locks are not logged, and expire if the driver dies: {error!r}\n")


def add_log(log4j: Any, file: str) -> None:
    core, context = log4j.core, log4j.LogManager.getContext(False)
    layout = core.layout.PatternLayout.newBuilder().withPattern(PATTERN).build()
    named = core.appender.FileAppender.newBuilder().withFileName(file).setName("lakehand-locks")
    appender = named.setLayout(layout).setConfiguration(context.getConfiguration()).build()
    appender.start()
    logger = core.config.LoggerConfig(LOGGER, log4j.Level.INFO, False)
    logger.addAppender(appender, log4j.Level.INFO, None)
    context.getConfiguration().addLogger(LOGGER, logger)
    context.updateLoggers()


def log_own(session: "SparkSession", message: str) -> None:
    """For a lock that a job takes by itself, without Hudi's transactions."""
    jvm(session).org.slf4j.LoggerFactory.getLogger(LOGGER).info(message)


def release_left(folder: Path) -> None:
    """Called at start, when the driver before is dead. Nobody else's lock is touched."""
    taken = taken_at(folder / LOG)
    for file in folder.glob(f"*{SUFFIX}"):
        moment = taken.get(thread_of(file.name.removesuffix(SUFFIX)))
        with suppress(OSError, ValueError, KeyError, TypeError):
            path = Path(json.loads(file.read_text(encoding="utf-8"))["path"])
            if moment is not None and is_same(path, moment):
                path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
                path.unlink()
                sys.stderr.write(f"lakehand: {path} was left by a driver that died, and is released\n")
        file.unlink(missing_ok=True)
    (folder / LOG).unlink(missing_ok=True)


def is_same(path: Path, moment: int) -> bool:
    """Whether it is the file that was there at that moment, in the folder that the job has checked."""
    return path.resolve() == path and path.lstat().st_mtime_ns // 1_000_000 <= moment


def taken_at(log: Path) -> dict[str, int]:
    """When each thread took the lock that it still held at the end of the log, in milliseconds.

    A commit under the table's lock logs a lock of its own client, which is taken and released inside of the other.
    """
    taken: dict[str, list[int]] = {}
    for moment, thread, step in steps_in(log):
        moments = taken.setdefault(thread, [])
        if step == "started":
            moments.append(moment)
        elif moments:
            moments.pop()
    return {thread: moments[0] for thread, moments in taken.items() if moments}


def steps_in(log: Path) -> Iterator[tuple[int, str, str]]:
    with suppress(FileNotFoundError), log.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if found := _LINE.match(line):
                yield int(found[1]), found[2], found[3]
