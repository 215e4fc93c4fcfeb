# SPDX-License-Identifier: Apache-2.0
"""The process factory of Hudi: services with plans, of the writer or of our own, and services without."""

from collections.abc import Mapping
from typing import ClassVar

from lakehand.formats.hudi import admissions, services, settings, verdicts
from lakehand.formats.hudi.locks import NoLock, lock_options
from lakehand.formats.hudi.snapshot import HudiSnapshot
from lakehand.formats.hudi.table import HUDI
from lakehand.spi import (
    Action,
    Invalid,
    Operation,
    Skip,
    TableConfig,
    TableProcess,
    TableRuntime,
    Verdict,
    kit,
)


class HudiProcessFactory(kit.FormatFactory[HudiSnapshot]):
    name = "hudi"
    format = HUDI
    strategies: ClassVar = {action: service.strategy for action, service in services.SERVICES.items()}
    dry_runs = frozenset(action for action, service in services.SERVICES.items() if service.has_dry_run)
    rows = settings.ROWS
    rules = verdicts.RULES
    snapshot_type = HudiSnapshot

    def make_settings(self) -> kit.FormatSettings:
        return kit.FormatSettings(*self.rows, passed_on=settings.TUNABLE)

    def open(self, properties: Mapping[str, str]) -> None:
        super().open(properties)
        settings.versions(self.settings.of(TableConfig()))

    def trigger(self, table: TableRuntime, action: Action) -> TableProcess | Skip:
        context = self.context(table, action)
        for plan in context.snapshot.pending:
            _ = plan.document  # a table that cannot be read is no decision, and beside a torn plan no job runs
        try:
            decision = services.decide(context)
        except Invalid as error:
            return Skip(reason=str(error))
        lock = lock_options(table.table.location, table.config)
        if isinstance(decision, TableProcess) and isinstance(lock, NoLock):
            return Skip(reason=f"{decision.reason}; it is not done: {lock.reason}")
        return decision

    def admit(self, table: TableRuntime, operation: Operation) -> kit.Admission:
        table.snapshot()
        try:
            return services.admit(self.context(table, operation.process.action, operation), operation)
        except Invalid as error:
            return admissions.not_done(operation, str(error))

    def options_of(self, action: Action, operation: Operation) -> Mapping[str, str]:
        """Unknown options of a writer are ignored, those of a person's request are refused."""
        requested = operation.process.parameters
        is_request = kit.is_by_person(operation) and not operation.process.job and admissions.is_planning(operation)
        options = self.settings.options_of(action, requested) if is_request else {}
        return {**settings.options_of_writer(action, requested), **options}

    def verify_effect(self, effect: kit.Effect[HudiSnapshot]) -> Verdict:
        return services.verify(effect)
