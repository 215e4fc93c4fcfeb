# SPDX-License-Identifier: Apache-2.0
"""The last look before an engine gets the work: is it still needed, and with which limits exactly."""

from dataclasses import replace

from lakehand.formats.iceberg import settings
from lakehand.formats.iceberg.retention import expirable
from lakehand.formats.iceberg.settings import Floors
from lakehand.formats.iceberg.snapshot import (
    EXPIRE_SNAPSHOTS,
    REMOVE_ORPHANS,
    REWRITE_DATA,
    REWRITE_MANIFESTS,
    REWRITE_POSITION_DELETES,
    IcebergSnapshot,
)
from lakehand.formats.iceberg.triggers import NEEDS, job_of, milliseconds, not_now, retention, why_never
from lakehand.spi import (
    Drop,
    Failure,
    Invalid,
    Json,
    Operation,
    Remedy,
    Setting,
    Skip,
    TableConfig,
    TableProcess,
    TableRuntime,
)
from lakehand.spi.pauses import DRY_RUN

DRY_RUNS = frozenset({EXPIRE_SNAPSHOTS, REMOVE_ORPHANS})
MOST_SNAPSHOTS = 2000  # of one operation; the next one takes the rest
KEPT = ("resource", "parallelism", "options")  # of a request: for engines that size each job, and for the next try


def admit(
    table: TableRuntime, snapshot: IcebergSnapshot, operation: Operation, floors: Floors
) -> TableProcess | Skip | Drop | Failure:
    action, is_own = operation.process.action, operation.origin == "coordinator"
    if why := why_never(table.config, snapshot, action):
        return Drop(reason=why) if is_own else refusal(why)
    if operation.process.parameters.get(DRY_RUN) and action not in DRY_RUNS:
        return refusal(f"{action} deletes nothing, and has no dry run")
    if is_own and not snapshot.tagged(operation.tag):
        need = NEEDS[action](table, snapshot, floors)
        if isinstance(need, Skip):
            return Drop(reason=f"no longer needed: {need.reason}")
        if waiting := not_now(table, snapshot, action):
            return waiting
    try:
        return complete(table, snapshot, operation, floors)
    except Invalid as error:
        return refusal(str(error))


def refusal(why: str) -> Failure:
    return Failure(reason="refused", message=why, remedy=Remedy.FATAL)


def complete(table: TableRuntime, snapshot: IcebergSnapshot, operation: Operation, floors: Floors) -> TableProcess:
    """The process with all that the job needs, from the table as it is now."""
    action, asked, reference = operation.process.action, operation.process.parameters, table.reference
    config = with_request(table.config, settings.asked_options(action, asked))
    parameters: dict[str, Json] = {
        **{key: asked[key] for key in KEPT if key in asked},
        "location": reference.location,
        "catalog": reference.catalog.name if reference.catalog else "",
        "namespace": reference.db_name if reference.catalog else "",
        "table": reference.table_name if reference.catalog else "",
        "operation_tag": operation.tag,
        "identity": snapshot.identity,
        "before": snapshot.current.id if snapshot.current else None,
        "seen": snapshot.totals(),
        **specifics(table, snapshot, operation, config, floors),
    }
    return replace(operation.process, job=job_of(action), parameters=parameters)


def with_request(config: TableConfig, asked: dict[str, str]) -> TableConfig:
    added = {key: Setting(value=value, origin="request") for key, value in asked.items()}
    return TableConfig(settings={**config.settings, **added})


def specifics(
    table: TableRuntime, snapshot: IcebergSnapshot, operation: Operation, config: TableConfig, floors: Floors
) -> dict[str, Json]:
    action = operation.process.action
    if action == REWRITE_DATA:
        return data_options(snapshot, config)
    if action == REWRITE_POSITION_DELETES:
        rules = settings.delete_rules(config, snapshot)
        return {"rewrite": {"min-input-files": str(rules.min_files), **rewrite_all(config, "rewrite-position-deletes")}}
    if action == REWRITE_MANIFESTS:
        return {}
    flags = {key: operation.process.parameters.get(key) is True for key in (DRY_RUN, "confirm")}
    if action == REMOVE_ORPHANS:
        age = max(settings.orphan_age(config, floors), settings.orphan_age(table.config, floors))
        return {**flags, "older_than": milliseconds(table.now - age)}
    return {**flags, **expiry(table, snapshot, config, floors)}


def data_options(snapshot: IcebergSnapshot, config: TableConfig) -> dict[str, Json]:
    """The thresholds of the decision, as Iceberg's own planner knows them."""
    rules = settings.data_rules(config, snapshot)
    options = {
        "target-file-size-bytes": str(rules.target),
        "min-file-size-bytes": str(rules.small),
        "min-input-files": str(rules.min_files),
        "delete-file-threshold": str(rules.delete_files),
        "delete-ratio-threshold": str(rules.delete_ratio),
        "max-files-to-rewrite": str(rules.max_files),
        "remove-dangling-deletes": "true",
        "use-starting-sequence-number": "true",
        **rewrite_all(config, "rewrite-data"),
    }
    return {"rewrite": options, "order": dict(rules.order)}


def rewrite_all(config: TableConfig, action: str) -> dict[str, str]:
    """Asked for once, never a standing order: it has no fixed point."""
    key = f"iceberg.{action}.rewrite-all"
    return {"rewrite-all": "true"} if config.origin(key) == "request" and config.flag(key, False) else {}


def expiry(table: TableRuntime, snapshot: IcebergSnapshot, config: TableConfig, floors: Floors) -> dict[str, Json]:
    """Exactly these snapshots, and none besides: a request may keep more than the table does, never less."""
    kept, asked = retention(table, floors, table.config), retention(table, floors, config)
    kept = replace(
        kept,
        max_age=max(kept.max_age, asked.max_age),
        min_snapshots=max(kept.min_snapshots, asked.min_snapshots),
    )
    gone = expirable(snapshot, kept)[:MOST_SNAPSHOTS]
    return {
        "expire": [commit.id for commit in gone],
        "older_than": kept.now - kept.max_age,
        "min_snapshots": kept.min_snapshots,
    }
