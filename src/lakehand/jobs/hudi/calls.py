# SPDX-License-Identifier: Apache-2.0
"""Calls of Hudi's procedures, each value quoted or refused; and what compaction and clustering do with their plans."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import SparkSession

from lakehand.jobs.hudi import checks, rollbacks, timelines
from lakehand.jobs.job import Job
from lakehand.jobs.spark import literal

Value = str | int | bool
Arguments = Mapping[str, Value]
_INSTANT = re.compile(r"\d{14}|\d{17}")
_KEY = re.compile(r"hoodie\.[A-Za-z0-9_.-]{1,200}")
_WORD = re.compile(r"[a-z_]+")


def statement(procedure: str, arguments: Arguments) -> str:
    if not all(_WORD.fullmatch(word) for word in (procedure, *arguments)):
        raise ValueError(f"{procedure}({', '.join(arguments)}) is not a procedure of Hudi's")
    return f"CALL {procedure}({', '.join(f'{key} => {literal(value)}' for key, value in arguments.items())})"


def call(session: SparkSession, procedure: str, arguments: Arguments) -> list[dict[str, Any]]:
    return [row.asDict() for row in session.sql(statement(procedure, arguments)).collect()]


def instant_of(text: Any) -> str:
    if not isinstance(text, str) or not _INSTANT.fullmatch(text):
        raise ValueError(f"{text!r} is not an instant: 14 or 17 digits")
    return text


def use_options(session: SparkSession, options: Mapping[str, str]) -> dict[str, Value]:
    """Give the options to every client that a procedure makes in this session, whatever characters they have.

    The procedures read the session's ``hoodie.*`` settings. The lock's provider is repeated as an argument, since some
    procedures choose a lock of their own when their arguments name none.
    """
    for key, value in options.items():
        if not _KEY.fullmatch(key) or not value.isprintable():
            raise ValueError(f"{key!r} is not an option of Hudi's, or its value cannot be printed")
        session.conf.set(key, value)
    provider = options.get("hoodie.write.lock.provider", "")
    return {"options": f"hoodie.write.lock.provider={provider}"} if provider else {}


def run_plans(
    job: Job, kind: str, *, plan: Callable[[], object], execute: Callable[[str], list[dict[str, Any]]]
) -> dict[str, Any]:
    """Execute one named plan; or all pending ones, and only if there are none make a plan and execute that."""
    planned: list[str] = []
    if job.parameters["mode"] == "execute":
        instants = [instant_of(job.parameters["instant"])]
    else:
        job.phase("finding pending plans")
        instants = timelines.pending(job.session, job.boundary.real, kind)
        if not instants and job.parameters.get("may_plan"):
            job.check()
            job.phase("planning")
            plan()
            instants = planned = timelines.pending(job.session, job.boundary.real, kind)
            job.note("planned", planned)
    job.note("instants", instants)
    rows: list[dict[str, Any]] = []
    for instant in instants:
        job.check()
        checks.check_again(job)
        rollbacks.leave_to_runner(job, job.boundary.real, kind, instant)
        job.phase(f"executing {instant}")
        rows += [json_row(row) for row in execute(instant)]
    return {"instants": instants, "planned": planned, "rows": rows}


def json_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row whose values JSON knows."""
    return {
        key: value if isinstance(value, (int, float, str, type(None))) else str(value) for key, value in row.items()
    }
