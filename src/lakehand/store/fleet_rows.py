# SPDX-License-Identifier: Apache-2.0
"""Converts rows of the fleet: tables with their state and reason, failures, unreadable tables, totals."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Row

from lakehand.domain.actions import Action
from lakehand.domain.fleet import ATTENTION, FleetProblem, FleetTable, FleetTotals, TableState
from lakehand.domain.operations import OperationId
from lakehand.domain.texts import first_sentence
from lakehand.store.clock import to_time
from lakehand.store.documents import to_failure
from lakehand.store.table_rows import to_table

NUMBERS = ("files", "small_files", "bytes", "small_bytes")


def to_totals(row: Sequence[Any]) -> FleetTotals:
    """From the number of tables and the sums of NUMBERS."""
    tables, files, small_files, size, small_size = (int(value) for value in row)
    return FleetTotals(tables=tables, files=files, small_files=small_files, bytes=size, small_bytes=small_size)


def to_fleet_table(row: Row[Any], reason: tuple[str, int | None]) -> FleetTable:
    """From a row of ``tbl`` with its state, and its last reason with the time of that decision."""
    why, decided = (row.problem, row.problem_time) if row.problem else reason
    return FleetTable(
        table=to_table(row),
        state=ATTENTION[row.state],
        reason=why,
        decided_at=to_time(decided),
        problem=row.problem or "",
        problem_since=to_time(row.problem_time),
        health_at=to_time(row.health_time),
        **{name: getattr(row, name) for name in NUMBERS},
    )


def last_reasons(schedules: Iterable[Row[Any]]) -> Mapping[int, tuple[str, int | None]]:
    """Per table, the reason of an action that failed for good, else of the last evaluated, and when it was decided."""
    ranked = sorted(schedules, key=lambda row: (row.failed_operation is not None, row.last_look or 0))
    return {row.tbl_id: (row.last_reason, row.last_decision) for row in ranked}


def to_failed(row: Row[Any]) -> FleetProblem:
    """The operation itself may be gone with the history."""
    failure = to_failure(row.failure)
    why = failure.message if failure else row.failed_reason or row.last_reason
    return FleetProblem(
        table=to_table(row),
        state=TableState.FAILED,
        reason=first_sentence(why),
        since=to_time(row.finish_time),
        action=Action(row.failed_action),
        operation=OperationId(row.failed_operation),
    )


def to_unreadable(row: Row[Any]) -> FleetProblem:
    return FleetProblem(
        table=to_table(row),
        state=TableState.UNREADABLE,
        reason=first_sentence(row.problem),
        since=to_time(row.problem_time),
    )
