# SPDX-License-Identifier: Apache-2.0
"""The services of Hudi, one row per action: how each is decided, admitted and verified."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

from lakehand.formats.hudi import actions as admissions
from lakehand.formats.hudi import archive, find_duplicates, indexing, partition_ttl, rollback_failed_writes, verdicts
from lakehand.formats.hudi import planned as decisions
from lakehand.formats.hudi.context import HudiContext
from lakehand.formats.hudi.snapshot import (
    ARCHIVE,
    FIND_DUPLICATES,
    INDEXING,
    PARTITION_TTL,
    PLANNED,
    ROLLBACK_FAILED_WRITES,
    HudiSnapshot,
)
from lakehand.formats.hudi.unplanned import UnplannedService
from lakehand.spi import (
    METADATA_TRIGGER,
    Action,
    Operation,
    ProcessTriggerStrategy,
    Skip,
    TableProcess,
    Verdict,
    at_fixed_rate,
    kit,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HudiService:
    """One action. What holds for all of them (switches, versions, dry runs) is checked before its row is asked."""

    decide: Callable[[HudiContext], TableProcess | Skip]
    admit: Callable[[HudiContext, Operation], kit.Admission]
    verify: Callable[[kit.Effect[HudiSnapshot]], Verdict]
    has_dry_run: bool = False
    strategy: ProcessTriggerStrategy = METADATA_TRIGGER


def without_plans(service: UnplannedService, *, has_dry_run: bool = False) -> HudiService:
    return HudiService(decide=service.decide, admit=service.admit, verify=service.verify, has_dry_run=has_dry_run)


# It lists the table's folders, and partitions expire by time.
_DAILY = at_fixed_rate(timedelta(days=1))
_FROM_PLANS = HudiService(decide=decisions.decide, admit=admissions.admit, verify=verdicts.verify)
SERVICES: Mapping[Action, HudiService] = {
    **dict.fromkeys(PLANNED, _FROM_PLANS),
    INDEXING: HudiService(decide=indexing.decide, admit=indexing.admit, verify=indexing.verify),
    PARTITION_TTL: replace(without_plans(partition_ttl.SERVICE, has_dry_run=True), strategy=_DAILY),
    ARCHIVE: without_plans(archive.SERVICE, has_dry_run=True),
    ROLLBACK_FAILED_WRITES: without_plans(rollback_failed_writes.SERVICE, has_dry_run=True),
    FIND_DUPLICATES: HudiService(
        decide=find_duplicates.decide, admit=find_duplicates.admit, verify=find_duplicates.verify
    ),
}


def decide(context: HudiContext) -> TableProcess | Skip:
    if why := decisions.why_never(context):
        return Skip(reason=why)
    return SERVICES[context.action].decide(context)


def admit(context: HudiContext, operation: Operation) -> kit.Admission:
    service = SERVICES[context.action]
    if off := decisions.switched_off(context, context.action):
        return admissions.not_done(operation, off)
    if context.is_dry_run and not service.has_dry_run:
        return kit.refusal(operation, f"{context.action} has no dry run")
    if why := decisions.why_never(context):
        return Skip(reason=why, look_again=admissions.MUCH_LATER)
    unfinished = context.snapshot.unfinished_metadata_partitions
    if unfinished and context.action != INDEXING:
        reason = f"the metadata index {unfinished[0]!r} is being built by someone"
        return Skip(reason=reason, look_again=admissions.LATER)
    return service.admit(context, operation)


def verify(effect: kit.Effect[HudiSnapshot]) -> Verdict:
    return SERVICES[effect.process.action].verify(effect)
