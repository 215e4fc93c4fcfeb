# SPDX-License-Identifier: Apache-2.0
"""A Lance job that is interrupted at a step that a test names."""

from importlib import import_module
from typing import Any

import pytest

from lakehand.jobs.attempt import job_called
from lakehand.jobs.job import Job
from lakehand.spi import Operation
from lakehand.testing.harness import PluginHarness
from tests.kit.interruptions import Hook, Interruptions, run_job


def execute(subject: PluginHarness, operation: Operation, step: str, act: Hook) -> dict[str, Any]:
    """Run the job, with the act when it comes to a phase or note."""
    process = operation.process
    return run_job(subject.session, process.job, process.parameters, Interruptions(hooks={step: act}))


def execute_here(operation: Operation, step: str, act: Hook) -> dict[str, Any]:
    """The same for a job that needs no Spark."""
    process, record = operation.process, Interruptions(hooks={step: act})
    session: Any = None
    result: dict[str, Any] = job_called(process.job)(Job(session, dict(process.parameters), record=record))
    assert not record.hooks, f"the job never came to {list(record.hooks)}: {record.lines}"
    return result


def seen_tasks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many tasks each rewrite was given, from now on."""
    commits = import_module("lakehand.jobs.lance.commits")
    counts: list[int] = []
    real = commits.rewrite

    def count_tasks(context: Any, source: Any, tasks: list[Any]) -> list[Any]:
        counts.append(len(tasks))
        return list(real(context, source, tasks))

    monkeypatch.setattr(commits, "rewrite", count_tasks)
    return counts
