# SPDX-License-Identifier: Apache-2.0
"""The last look before an engine gets the work: is it still needed, may it be done, and with which limits."""

from collections.abc import Callable, Mapping
from datetime import datetime

from lakehand.formats.paimon import compaction, expiry, orphans, settings, sorting
from lakehand.formats.paimon.neighbours import why_beside
from lakehand.formats.paimon.references import TooMany, used_names
from lakehand.formats.paimon.settings import COMPACT, EXPIRE, ORPHANS, Floors
from lakehand.formats.paimon.snapshot import PaimonSnapshot
from lakehand.spi import Action, Drop, Failure, Invalid, Json, Operation, Remedy, Skip, TableProcess, TableRuntime

KEPT = ("options", "dry_run", "confirm")  # of a request: read again at every admission

Answer = TableProcess | Skip | Drop | Failure


def admit(table: TableRuntime, snapshot: PaimonSnapshot, operation: Operation, floors: Floors) -> Answer:
    action = operation.process.action
    if off := settings.switched_off(table.config, action):
        return refused(operation, off)
    try:
        return ADMISSIONS[action](table, snapshot, operation, floors)
    except Invalid as error:
        return refused(operation, str(error))


def admit_compact(table: TableRuntime, snapshot: PaimonSnapshot, operation: Operation, floors: Floors) -> Answer:
    asked = settings.options_of(operation.process.action, operation.process.parameters)
    if why := compaction.why_never(snapshot):
        return refused(operation, why)
    plan = compaction.planned(table, snapshot, asked)
    is_done = bool(snapshot.tagged(operation.tag, after=began(operation, snapshot)))
    if not is_done and not is_asked(operation) and not plan.is_needed:
        return Drop(reason=f"no longer needed: {plan.reason}")
    if plan.strategy == settings.SORT and plan.order is None:
        return refused(operation, plan.reason)
    if not is_confirmed(operation) and (why := why_beside(snapshot, table.config)):
        return refused(operation, why, confirm=True)
    return complete(
        table, snapshot, operation, "paimon.compact",
        {
            "strategy": plan.strategy,
            "kind": str(snapshot.schema.kind),
            "counts": compaction.counts_of(snapshot),
            "min_files": 2 if plan.strategy == settings.FULL else settings.min_files(table.config, asked),
            "order_strategy": plan.order.strategy if plan.order else None,
            "order_columns": list(plan.order.columns) if plan.order else None,
            "sign": sorting.sign_of(plan.order) if plan.order else None,
            "files_before": len(snapshot.files),
        },
    )  # fmt: skip


def admit_expire(table: TableRuntime, snapshot: PaimonSnapshot, operation: Operation, floors: Floors) -> Answer:
    if not snapshot.ids:
        return refused(operation, "the table has no snapshot: nothing can expire")
    asked = settings.options_of(operation.process.action, operation.process.parameters)
    found = expiry.expirable(table, snapshot, floors, asked)
    if not is_asked(operation) and not found.count and operation.run_times == 0:
        return Drop(reason=f"no longer needed: {found.told(snapshot)}")
    try:
        read_what_stays(snapshot, found.until)
    except OSError as error:
        return refused(operation, f"nothing expires while its metadata cannot be read: {error}")
    return complete(
        table, snapshot, operation, "paimon.expire_snapshots",
        {
            "until": found.until,
            "cutoff": milliseconds(found.cutoff),
            "retain_last": found.retained,
            "earliest": kept(operation, "earliest", snapshot.earliest),
            "snapshots_before": kept(operation, "snapshots_before", len(snapshot.ids)),
            "held": found.held,
        },
    )  # fmt: skip


def admit_orphans(table: TableRuntime, snapshot: PaimonSnapshot, operation: Operation, floors: Floors) -> Answer:
    asked = settings.options_of(operation.process.action, operation.process.parameters)
    age = settings.orphan_age(table.config, floors, asked)
    wanted = orphans.decide(table, snapshot, floors)
    if not is_asked(operation) and isinstance(wanted, Skip) and operation.run_times == 0:
        return Drop(reason=f"no longer needed: {wanted.reason}")
    try:
        used_names(snapshot, table.config.number(settings.LOOK_FILES, 20_000))
    except TooMany:
        pass  # the job reads them all, and stops at the first that it cannot read
    except OSError as error:
        return refused(operation, f"nothing is deleted while its metadata cannot be read: {error}")
    return complete(table, snapshot, operation, "paimon.remove_orphans", {"older_than": milliseconds(table.now - age)})


def read_what_stays(snapshot: PaimonSnapshot, until: int) -> None:
    """Paimon takes a list that was cut short for an empty one, and would delete what a tag or a snapshot needs."""
    first = snapshot.document(until)
    for document in [*snapshot.layout.tags().values(), *([first] if first else []), snapshot.newest]:
        snapshot.manifests.content(document)


def complete(
    table: TableRuntime, snapshot: PaimonSnapshot, operation: Operation, job: str, specific: Mapping[str, Json]
) -> TableProcess:
    """The process with all that the job needs, from the table as it is now."""
    reference, asked = table.reference, operation.process.parameters
    parameters: dict[str, Json] = {
        **{key: asked[key] for key in KEPT if key in asked},
        "location": table.table.location,
        "identity": snapshot.identity,
        "catalog": reference.catalog.name if reference.catalog else None,
        "db_name": reference.db_name,
        "table_name": reference.table_name,
        "operation_tag": operation.tag,
        "before": began(operation, snapshot),
        "dry_run": asked.get("dry_run") is True,
        **specific,
    }
    return TableProcess(
        action=operation.process.action, job=job, engine=operation.process.engine, instant=operation.process.instant,
        parameters=parameters, reason=operation.process.reason,
    )  # fmt: skip


def refused(operation: Operation, why: str, *, confirm: bool = False) -> Drop | Failure:
    """What we thought of ourselves is let go; what a person asked for fails, and says what to do."""
    if not is_asked(operation):
        return Drop(reason=f"not done: {why}")
    action = operation.process.action
    advice = f". To do it all the same: lakehand operations submit TABLE {action} --confirm" if confirm else ""
    return Failure(reason="refused", message=f"{why}{advice}", remedy=Remedy.FATAL)


def began(operation: Operation, snapshot: PaimonSnapshot) -> int:
    """The newest snapshot when the first attempt was admitted: whatever we committed is younger."""
    return kept(operation, "before", snapshot.latest)


def kept(operation: Operation, key: str, now: int) -> int:
    before = operation.process.parameters.get(key)
    return before if operation.run_times and isinstance(before, int) else now


def is_asked(operation: Operation) -> bool:
    return operation.origin != "coordinator"


def is_confirmed(operation: Operation) -> bool:
    return operation.process.parameters.get("confirm") is True


def milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


ADMISSIONS: Mapping[Action, Callable[[TableRuntime, PaimonSnapshot, Operation, Floors], Answer]] = {
    COMPACT: admit_compact,
    EXPIRE: admit_expire,
    ORPHANS: admit_orphans,
}
