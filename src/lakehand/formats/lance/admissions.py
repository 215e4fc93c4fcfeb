# SPDX-License-Identifier: Apache-2.0
"""The last look before an engine gets the work: is it still needed, and with which limits must it run."""

from datetime import datetime

from lakehand.formats.lance import settings
from lakehand.formats.lance.settings import Floors
from lakehand.formats.lance.snapshot import COMPACT, LanceSnapshot
from lakehand.formats.lance.triggers import JOBS, need
from lakehand.spi import Drop, Failure, Invalid, Json, Operation, Remedy, Skip, TableProcess, TableRuntime


def admit(
    table: TableRuntime, snapshot: LanceSnapshot, operation: Operation, floors: Floors
) -> TableProcess | Skip | Drop | Failure:
    action = operation.process.action
    if off := settings.switched_off(table.config, action):
        return Drop(reason=off) if operation.origin == "coordinator" else not_allowed(off)
    answer = need(table, snapshot, action, floors)
    if isinstance(answer, Skip) and operation.origin == "coordinator":
        return Drop(reason=f"no longer needed: {answer.reason}")
    try:
        parameters = parameters_of(table, snapshot, operation, floors)
    except Invalid as error:
        return not_allowed(str(error))
    return TableProcess(
        action=action,
        job=JOBS[action],
        engine=operation.process.engine,
        instant=operation.process.instant,
        parameters=parameters,
        reason=operation.process.reason or (answer if isinstance(answer, str) else f"asked for; {answer.reason}"),
    )


def not_allowed(why: str) -> Failure:
    return Failure(reason="not-allowed", message=why, remedy=Remedy.FATAL)


def parameters_of(
    table: TableRuntime, snapshot: LanceSnapshot, operation: Operation, floors: Floors
) -> dict[str, Json]:
    asked, action = operation.process.parameters, operation.process.action
    options = settings.allowed(action, asked.get("options"))
    basis: dict[str, Json] = {
        "location": table.table.location,
        "operation_tag": operation.tag,
        "before": snapshot.version,
        "identity": snapshot.identity,
        "options": options,
    }
    if action == COMPACT:
        return {**basis, **compacting(table, snapshot, options, asked.get("dry_run"))}
    return {**basis, **cleaning(table, snapshot, floors, options), "dry_run": bool(asked.get("dry_run"))}


def compacting(
    table: TableRuntime, snapshot: LanceSnapshot, options: dict[str, Json], dry_run: Json
) -> dict[str, Json]:
    if dry_run:
        raise Invalid("compact deletes nothing, so that it has no dry run: lakehand check shows what it would rewrite")
    goals = settings.goals(table.config, snapshot, options)
    return {
        "target_rows": goals.target_rows,
        "deleted_share": goals.deleted_share,
        "max_bytes": goals.max_bytes,
        "is_indexed": bool(snapshot.indices),
        "seen": state_of(snapshot),
    }


def cleaning(table: TableRuntime, snapshot: LanceSnapshot, floors: Floors, options: dict[str, Json]) -> dict[str, Json]:
    kept = settings.retention(table.config, floors, options)
    cutoff = table.now - kept.max_age
    return {
        "cutoff_ms": milliseconds(cutoff),
        "retain_versions": kept.versions,
        "seen": {"versions": len(snapshot.history), "expired": len(snapshot.expired(cutoff, kept.versions))},
    }


def state_of(snapshot: LanceSnapshot) -> dict[str, Json]:
    """What a rewrite changes."""
    return {
        "fragments": len(snapshot.fragments),
        "files": sum(len(f.sizes) for f in snapshot.fragments),
        "bytes": snapshot.bytes,
        "deleted_rows": snapshot.deleted_rows,
        "rows": snapshot.physical_rows - snapshot.deleted_rows,
    }


def milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
