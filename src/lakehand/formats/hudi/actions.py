# SPDX-License-Identifier: Apache-2.0
"""What every action of Hudi has beside the kit's definition, and what every job of Hudi gets."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lakehand.formats.hudi.context import HudiContext
from lakehand.formats.hudi.locks import NoLock, lock_options, operators_folders, operators_path
from lakehand.formats.hudi.notifications import HudiNotifications
from lakehand.formats.hudi.snapshot import HudiSnapshot
from lakehand.formats.hudi.turns import MUCH_LATER
from lakehand.formats.hudi.writer_options import writer_options
from lakehand.formats.hudi.writers import codec_options, heartbeat_options
from lakehand.spi import (
    METADATA_TRIGGER,
    Action,
    Drop,
    Failure,
    Instant,
    Json,
    Operation,
    ProcessTriggerStrategy,
    Skip,
    TableProcess,
    kit,
)
from lakehand.spi.kit.conversions import fields

EXECUTE = "execute"
PLAN_AND_EXECUTE = "plan-and-execute"
IDENTITY = ("hoodie.database.name", "hoodie.table.name", "hoodie.table.type")
KEPT = ("resource", "parallelism")  # of a request: for engines that size each job
# Sizes and counts that properties and requests may set: nothing that loads a class or a file, or deletes sooner.
TUNABLE = HudiNotifications.options | {
    "hoodie.memory.merge.fraction",
    "hoodie.parquet.block.size",
    "hoodie.parquet.compression.codec",
    "hoodie.parquet.compression.ratio",
    "hoodie.parquet.page.size",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class HudiAction(kit.ActionDefinition[HudiSnapshot], ABC):
    """One action. What holds for all of them (switches, versions, dry runs) is checked before it is asked."""

    strategy: ProcessTriggerStrategy = METADATA_TRIGGER
    after: tuple[Action, ...] = ()  # whose pending plans go first
    options: Callable[[HudiContext], Mapping[str, str]] = lambda context: {}  # of Hudi, above those that every job gets
    writes_base_files: bool = False
    is_urgent: bool = False

    @abstractmethod
    def trigger(self, context: HudiContext) -> TableProcess | Skip: ...

    @abstractmethod
    def admit(self, context: HudiContext, operation: Operation) -> kit.Admission: ...

    def process(
        self,
        parameters: Mapping[str, Json],
        reason: str,
        *,
        instant: Instant | None = None,
        engine: str = "spark",
    ) -> TableProcess:
        return TableProcess(
            action=self.name, job=f"hudi.{self.name.replace('-', '_')}", engine=engine, instant=instant,
            parameters=parameters, urgent=self.is_urgent, reason=reason,
        )  # fmt: skip

    def goes_first(self, context: HudiContext) -> Skip | None:
        for first in self.after:
            if plans := context.snapshot.pending_of(first):
                return Skip(reason=f"{first} plan {plans[0].instant} is pending and goes first")
        return None

    def job_parameters(self, context: HudiContext, operation: Operation) -> dict[str, Json] | Skip:
        """What every job of Hudi must know."""
        table, requested = context.table, operation.process.parameters
        options = self.execution_options(context, operation)
        if isinstance(options, NoLock):
            return Skip(reason=options.reason, look_again=MUCH_LATER)
        return {
            **{key: requested[key] for key in KEPT if key in requested},
            "location": table.table.location,
            # Hudi gives its tables no identifier of their own: what they are called and of which type must do.
            "identity": " ".join(context.snapshot.properties.get(key) or "-" for key in IDENTITY),
            "options": dict(options),
            "operators_lock_path": operators_path(table.config),
            "operators_lock_folders": list[Json](operators_folders(table.config)),
        }

    def execution_options(self, context: HudiContext, operation: Operation) -> dict[str, str] | NoLock:
        config, requested = context.table.config, operation.process.parameters
        lock = lock_options(context.table.table.location, config)
        if isinstance(lock, NoLock):
            return lock
        return {
            **(codec_options(context.snapshot, self.name) if self.writes_base_files else {}),
            **tunable_options(config.starting_with("hoodie.")),
            **tunable_options(fields(requested.get("options") or requested.get("extra_params"))),
            **writer_options(context.snapshot),
            **heartbeat_options(config),
            **lock,
            **self.options(context),
        }


def tunable_options(options: Mapping[str, Json]) -> dict[str, str]:
    return {key: str(value) for key, value in options.items() if key in TUNABLE}


def is_planning(operation: Operation) -> bool:
    """Whether the work is planned by us; otherwise it is a plan that a writer left on the timeline."""
    return operation.process.parameters.get("mode") == PLAN_AND_EXECUTE


def refused(operation: Operation, why: str) -> Skip | Drop | Failure:
    """A plan on the timeline waits until the settings are changed; a request for a new one is refused."""
    return kit.refusal(operation, why) if is_planning(operation) else Skip(reason=why, look_again=MUCH_LATER)
