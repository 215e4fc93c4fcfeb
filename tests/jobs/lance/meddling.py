# SPDX-License-Identifier: Apache-2.0
"""A job whose record meddles: it calls a function when the job comes to a phase or publishes a note."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest

from lakehand.jobs.attempt import job_called
from lakehand.jobs.job import Job, Record
from lakehand.spi import Operation
from lakehand.testing.harness import PluginHarness


class Died(BaseException):
    """The driver is gone: nothing after this line runs, and nobody writes a result."""


class Meddler(Record):
    def __init__(self, moment: str, meddle: Callable[[], Any]) -> None:
        super().__init__()
        self.moment, self.meddle, self.is_done = moment, meddle, False
        self.reason = ""

    def stop_reason(self) -> str:
        return self.reason

    def publish(self) -> None:
        if not self.is_done and (self.phase == self.moment or self.moment in self.notes):
            self.is_done = True
            self.meddle()


def execute(subject: PluginHarness, operation: Operation, record: Record) -> dict[str, Any]:
    assert subject.session is not None
    parameters = dict(operation.process.parameters)
    job = Job(session=subject.session.newSession(), parameters=parameters, handle="1-1", record=record)
    result: dict[str, Any] = job_called(operation.process.job)(job)
    return result


def die() -> None:
    raise Died


def seen_tasks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many tasks each rewrite was given, from now on."""
    commits = import_module("lakehand.jobs.lance.commits")
    counts: list[int] = []
    real = commits.rewrite

    def counted(context: Any, source: Any, tasks: list[Any]) -> list[Any]:
        counts.append(len(tasks))
        return list(real(context, source, tasks))

    monkeypatch.setattr(commits, "rewrite", counted)
    return counts
