# SPDX-License-Identifier: Apache-2.0
"""The process factory of Hudi: compaction, clustering and clean, from plans of the writer or of our own."""

from collections.abc import Mapping

from lakehand.formats.hudi import admissions, decisions, settings, verdicts
from lakehand.formats.hudi.snapshot import ACTIONS, HudiSnapshot
from lakehand.formats.hudi.table import HUDI
from lakehand.spi import (
    METADATA_TRIGGER,
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
    strategies = dict.fromkeys(ACTIONS, METADATA_TRIGGER)
    rows = settings.ROWS
    rules = verdicts.RULES
    snapshot_type = HudiSnapshot

    def make_settings(self) -> kit.FormatSettings:
        return kit.FormatSettings(*self.rows, passed_on=settings.TUNABLE)

    def open(self, properties: Mapping[str, str]) -> None:
        super().open(properties)
        settings.versions(self.settings.of(TableConfig()))

    def trigger(self, table: TableRuntime, action: Action) -> TableProcess | Skip:
        table.snapshot()  # a table that cannot be read is no decision
        try:
            return decisions.decide(self.context(table, action))
        except Invalid as error:
            return Skip(reason=str(error))

    def admit(self, table: TableRuntime, operation: Operation) -> kit.Admission:
        table.snapshot()
        try:
            return admissions.admit(self.context(table, operation.process.action, operation), operation)
        except Invalid as error:
            return admissions.not_done(operation, str(error))

    def options_of(self, action: Action, operation: Operation) -> Mapping[str, str]:
        """Unknown options of a writer are ignored, those of a person's request are refused."""
        requested = operation.process.parameters
        is_request = kit.is_by_person(operation) and not operation.process.job and admissions.is_planning(operation)
        options = self.settings.options_of(action, requested) if is_request else {}
        return {**settings.options_of_writer(action, requested), **options}

    def verify_effect(self, effect: kit.Effect[HudiSnapshot]) -> Verdict:
        return verdicts.verify(effect)
