# SPDX-License-Identifier: Apache-2.0
"""Services that Hudi has no plans for: decided from the table, done in one go under the lock of its writers."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from lakehand.formats.hudi.actions import PLAN_AND_EXECUTE, HudiAction
from lakehand.formats.hudi.context import HudiContext
from lakehand.formats.hudi.locks import NoLock, shared_lock
from lakehand.spi import Finding, Json, Operation, Scheduling, Skip, TableProcess, kit
from lakehand.spi.pauses import DRY_RUN, pause

NO_COOL_DOWN = timedelta()
MODE: Mapping[str, Json] = {"mode": PLAN_AND_EXECUTE}  # as a request has it that names no instant


@dataclass(frozen=True, slots=True, kw_only=True)
class UnplannedAction(HudiAction):
    """``decide`` returns a ``Skip`` to a person only for the impossible."""

    def trigger(self, context: HudiContext) -> TableProcess | Skip:
        """Runs without effect are not repeated because ``decide`` remembers what they saw, so there is no cool-down."""
        if waiting := pause(context.table, context.action, cool_down=NO_COOL_DOWN):
            return waiting
        if context.table.table.spec.scheduling is Scheduling.WRITER:
            return Skip(reason=f"{context.action} is left to the writer: set scheduling = service to have it done here")
        if why := why_unlocked(context):
            return Skip(reason=why)
        need = self.decide(context)
        if isinstance(need, Skip):
            return need
        return self.goes_first(context) or self.process({**MODE, **need.parameters}, need.reason)

    def admit(self, context: HudiContext, operation: Operation) -> kit.Admission:
        if why := why_unlocked(context):
            return kit.refusal(operation, why)
        if self.has_committed(context):
            return operation.process
        need = self.decide(context)
        if isinstance(need, Skip):
            if context.was_tried and need.look_again:
                return need  # what a dead attempt began looks alive for a while
            return kit.refusal(operation, need.reason if context.by_person else f"no longer needed: {need.reason}")
        return self.not_now(context) or self.complete(context, operation, need)

    def has_committed(self, context: HudiContext) -> bool:
        """Whether an earlier attempt is in the table: then its process runs as it was, and finds nothing to do."""
        operation = context.operation
        if operation is None or context.is_dry_run or not (context.was_tried and context.admitted_parameters):
            return False
        effect = kit.Effect(table=context.table, snapshot=context.snapshot, process=operation.process, result={})
        return self.verify(effect).finding is Finding.DONE

    def complete(self, context: HudiContext, operation: Operation, need: kit.Need) -> TableProcess | Skip:
        parameters = self.job_parameters(context, operation)
        if isinstance(parameters, Skip):
            return parameters
        parameters |= {**MODE, kit.TAG: operation.tag, DRY_RUN: context.is_dry_run}
        parameters |= need.parameters
        reason, engine = operation.process.reason or need.reason, operation.process.engine
        return self.process(parameters, reason, engine=engine)


def why_unlocked(context: HudiContext) -> str | None:
    lock = shared_lock(context.table.config)
    return f"{context.action} is not done beside the writer: {lock.reason}" if isinstance(lock, NoLock) else None
