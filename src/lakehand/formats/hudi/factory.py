# SPDX-License-Identifier: Apache-2.0
"""The process factory of Hudi: compaction, clustering and clean, from plans of the writer or of our own."""

from collections.abc import Mapping
from typing import ClassVar

from lakehand.formats.hudi import admissions, decisions, verdicts
from lakehand.formats.hudi.failures import RULES
from lakehand.formats.hudi.settings import hudi_settings, sent_by_writer, versions
from lakehand.formats.hudi.snapshot import CLEAN, CLUSTERING, COMPACTION, HudiSnapshot
from lakehand.formats.hudi.table import HUDI
from lakehand.spi import (
    METADATA_TRIGGER,
    Action,
    Format,
    Invalid,
    Json,
    Operation,
    ProcessTriggerStrategy,
    Skip,
    TableConfig,
    TableProcess,
    TableRuntime,
    Verdict,
)
from lakehand.spi.kit import Admission, FailureRule, FormatFactory, FormatSettings, is_by_person

ACTIONS = frozenset({COMPACTION, CLUSTERING, CLEAN})


class HudiProcessFactory(FormatFactory[HudiSnapshot]):
    name: ClassVar[str] = "hudi"
    format: ClassVar[Format] = HUDI
    strategies: ClassVar[Mapping[Action, ProcessTriggerStrategy]] = dict.fromkeys(ACTIONS, METADATA_TRIGGER)
    rules: ClassVar[tuple[FailureRule, ...]] = RULES
    snapshot_type = HudiSnapshot

    def make_settings(self) -> FormatSettings:
        return hudi_settings()

    def open(self, properties: Mapping[str, str]) -> None:
        super().open(properties)
        versions(self.settings.of(TableConfig()))

    def trigger(self, table: TableRuntime, action: Action) -> TableProcess | Skip:
        snapshot = self.snapshot_of(table)
        try:
            return decisions.decide(table, snapshot, action, self.settings.of(table.config))
        except Invalid as error:
            return Skip(reason=str(error))

    def admit(self, table: TableRuntime, operation: Operation) -> Admission:
        table.snapshot()
        try:
            return admissions.admit(self.context(table, operation.process.action, operation), operation)
        except Invalid as error:
            return admissions.not_done(operation, str(error))

    def options_of(self, action: Action, operation: Operation) -> Mapping[str, str]:
        """A writer sends along what it likes; a person who asks for a plan of ours is told what there is not."""
        asked = operation.process.parameters
        is_request = is_by_person(operation) and not operation.process.job and admissions.is_planning(operation)
        return {**sent_by_writer(action, asked), **(self.settings.options_of(action, asked) if is_request else {})}

    def verify_effect(
        self, table: TableRuntime, snapshot: HudiSnapshot, process: TableProcess, result: Mapping[str, Json]
    ) -> Verdict:
        return verdicts.verify(snapshot, process, result)
