# SPDX-License-Identifier: Apache-2.0
"""Calls of Hudi's procedures: every value is quoted, and what cannot be quoted is refused."""

import re
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from lakehand.jobs.boundary import OutsideTable
from lakehand.jobs.job import Job
from lakehand.jobs.paths import is_below

Value = str | int | bool
_INSTANT = re.compile(r"\d{14}|\d{17}")
_KEY = re.compile(r"hoodie\.[A-Za-z0-9_.-]{1,200}")
_LOCK_PATH = "hoodie.write.lock.filesystem.path"
_WORD = re.compile(r"[a-z_]+")


def literal(value: Value) -> str:
    """A value as Spark SQL reads it back unchanged."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if not value.isprintable() or "\\" in value:
        raise ValueError(f"{value!r} cannot be quoted: it has a backslash or a control character")
    return "'" + value.replace("'", "\\'") + "'"


def statement(procedure: str, arguments: Mapping[str, Value]) -> str:
    if not all(_WORD.fullmatch(word) for word in (procedure, *arguments)):
        raise ValueError(f"{procedure}({', '.join(arguments)}) is no procedure of Hudi's")
    return f"CALL {procedure}({', '.join(f'{key} => {literal(value)}' for key, value in arguments.items())})"


def call(session: SparkSession, procedure: str, arguments: Mapping[str, Value]) -> list[dict[str, Any]]:
    return [row.asDict() for row in session.sql(statement(procedure, arguments)).collect()]


def instant_of(text: Any) -> str:
    if not isinstance(text, str) or not _INSTANT.fullmatch(text):
        raise ValueError(f"{text!r} is no instant: 14 or 17 digits")
    return text


def use_options(session: SparkSession, options: Mapping[str, str]) -> dict[str, Value]:
    """Give the options to every client that a procedure makes in this session, whatever characters they have.

    The procedures read the session's ``hoodie.*`` settings. The lock's provider is repeated as an argument, since some
    procedures choose a lock of their own when their arguments name none.
    """
    for key, value in options.items():
        if not _KEY.fullmatch(key) or not value.isprintable():
            raise ValueError(f"{key!r} is no option of Hudi's, or its value cannot be printed")
        session.conf.set(key, value)
    provider = options.get("hoodie.write.lock.provider", "")
    return {"options": f"hoodie.write.lock.provider={provider}"} if provider else {}


def refuse_foreign_lock(job: Job) -> None:
    """Hudi creates the folder of its file lock, wherever that is."""
    path = job.parameters["options"].get(_LOCK_PATH, "")
    if not path or path == job.parameters.get("operators_lock_path"):
        return
    real = job.boundary.real_path(path)
    if real is None or not any(is_below(real, prefix) for prefix in (job.boundary.real, *job.boundary.warehouses)):
        raise OutsideTable(
            f"{_LOCK_PATH} is {path}, which is in no warehouse: name a folder inside the table or its warehouse, "
            "or let the operator of the service set it for all tables"
        )


def plain(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row whose values JSON knows."""
    return {
        key: value if isinstance(value, (int, float, str, type(None))) else str(value) for key, value in row.items()
    }
