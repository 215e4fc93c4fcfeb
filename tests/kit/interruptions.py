# SPDX-License-Identifier: Apache-2.0
"""Interrupting a job: a hook runs once, just when the job reports that it is at a certain point."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession

from lakehand.jobs.attempt import job_called
from lakehand.jobs.job import Job, Record

Hook = Callable[[], object]


class Killed(BaseException):
    """The driver dies here: nothing after this line runs, and no result is written."""


def die() -> None:
    raise Killed


@dataclass
class Interruptions(Record):
    """Calls each hook at the first phase or note that begins with its words."""

    hooks: dict[str, Hook] = field(default_factory=dict)
    reason: str = ""  # why the job must stop; a hook may set it

    def stop_reason(self) -> str:
        return self.reason

    def publish(self) -> None:
        reported = {self.phase, *self.notes}
        for words in [words for words in self.hooks if any(one.startswith(words) for one in reported)]:
            self.hooks.pop(words)()


def run_job(
    session: SparkSession | None,
    name: str,
    parameters: Mapping[str, Any],
    record: Interruptions,
    conf: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Run a job as the driver does, on a session of its own; fails when it never came to the point of a hook."""
    assert session is not None
    own = session.newSession()
    for key, value in (conf or {}).items():
        own.conf.set(key, value)
    result: dict[str, Any] = job_called(name)(Job(own, json.loads(json.dumps(parameters)), handle="7-1", record=record))
    assert not record.hooks, f"the job never came to {list(record.hooks)}: {record.lines}"
    return result
