# SPDX-License-Identifier: Apache-2.0
"""The process factory of Hudi: its actions, each in a file of its own, and what holds for all of them."""

from collections.abc import Mapping
from typing import ClassVar

from lakehand.formats.hudi import (
    archive,
    clean,
    clustering,
    compaction,
    find_duplicates,
    indexing,
    log_compaction,
    partition_ttl,
    rollback_failed_writes,
)
from lakehand.formats.hudi.actions import TUNABLE, HudiAction, is_planning, refused
from lakehand.formats.hudi.context import (
    METASERVER,
    ROWS,
    RULES,
    HudiContext,
    HudiEffect,
    switch,
    switched_off,
    versions,
)
from lakehand.formats.hudi.locks import NoLock, lock_options
from lakehand.formats.hudi.properties import IN_METASERVER
from lakehand.formats.hudi.snapshot import INDEXING, HudiSnapshot
from lakehand.formats.hudi.table import HUDI
from lakehand.formats.hudi.turns import LATER, MUCH_LATER
from lakehand.formats.hudi.writer_options import why_unknown
from lakehand.spi import Action, Invalid, Json, Operation, Skip, TableConfig, TableProcess, TableRuntime, Verdict, kit

ACTIONS: Mapping[Action, HudiAction] = {
    one.name: one
    for one in (
        compaction.ACTION, clustering.ACTION, clean.ACTION, log_compaction.ACTION, indexing.ACTION, archive.ACTION,
        rollback_failed_writes.ACTION, partition_ttl.ACTION, find_duplicates.ACTION,
    )
}  # fmt: skip


class HudiProcessFactory(kit.FormatFactory[HudiSnapshot]):
    name = "hudi"
    format = HUDI
    strategies: ClassVar = {name: action.strategy for name, action in ACTIONS.items()}
    dry_runs = frozenset(name for name, action in ACTIONS.items() if action.has_dry_run)
    rows = (*ROWS, *map(switch, ACTIONS), *(row for action in ACTIONS.values() for row in action.settings))
    rules = RULES
    snapshot_type = HudiSnapshot

    def make_settings(self) -> kit.FormatSettings:
        return kit.FormatSettings(*self.rows, passed_on=TUNABLE)

    def open(self, properties: Mapping[str, str]) -> None:
        super().open(properties)
        versions(self.settings.of(TableConfig()))

    def trigger(self, table: TableRuntime, action: Action) -> TableProcess | Skip:
        if why := self.why_unread(table):
            return Skip(reason=why)
        table.snapshot()  # nothing is decided about a table that cannot be read
        try:
            context = self.context(table, action)
            for plan in context.snapshot.pending:
                _ = plan.document  # a torn plan: the table cannot be read, and beside it no job runs
            if why := why_never(context):
                return Skip(reason=why)
            decision = ACTIONS[action].trigger(context)
            lock = lock_options(table.table.location, table.config)
        except Invalid as error:
            return Skip(reason=str(error))
        if isinstance(decision, TableProcess) and isinstance(lock, NoLock):
            return Skip(reason=f"{decision.reason}; it is not done: {lock.reason}")
        return decision

    def admit(self, table: TableRuntime, operation: Operation) -> kit.Admission:
        if why := self.why_unread(table):
            return Skip(reason=why, look_again=MUCH_LATER)
        table.snapshot()
        try:
            return self.admit_here(self.context(table, operation.process.action, operation), operation)
        except Invalid as error:
            return refused(operation, str(error))

    def why_unread(self, table: TableRuntime) -> str | None:
        """Why the files of the table do not tell its state; None when they do."""
        try:
            values = self.settings.of(table.config)
            if values[METASERVER]:
                return f"{METASERVER.key} is true (from {values.origin(METASERVER)}): {IN_METASERVER}"
        except Invalid as error:
            return str(error)
        return None

    def admit_here(self, context: HudiContext, operation: Operation) -> kit.Admission:
        action = ACTIONS[context.action]
        if off := switched_off(context, action.name):
            return refused(operation, off)
        if context.is_dry_run and not action.has_dry_run:
            return kit.refusal(operation, f"{action.name} has no dry run")
        if why := why_never(context):
            return Skip(reason=why, look_again=MUCH_LATER)
        unfinished = context.snapshot.unfinished_metadata_partitions
        if unfinished and action.name != INDEXING:
            reason = f"the metadata index {unfinished[0]!r} is being built by someone"
            return Skip(reason=reason, look_again=LATER)
        return action.admit(context, operation)

    def options_of(self, action: Action, operation: Operation) -> Mapping[str, str]:
        """Unknown options of a writer are ignored, those of a person's request are refused."""
        requested = operation.process.parameters
        is_request = kit.is_by_person(operation) and not operation.process.job and is_planning(operation)
        options = self.settings.options_of(action, requested) if is_request else {}
        return {**self.options_of_writer(action, requested), **options}

    def options_of_writer(self, action: Action, parameters: Mapping[str, Json]) -> dict[str, str]:
        """What a writer sends along, or what an earlier admission kept: by key, and only what makes sense."""
        rows = [row for row in self.rows if row.set_by.is_option and row.action == action]
        found = {row: str(value) for row in rows if (value := parameters.get(row.option.replace("-", "_")))}
        return {row.key: text for row, text in found.items() if is_sensible(row, text)}

    def verify_effect(self, effect: HudiEffect) -> Verdict:
        return ACTIONS[effect.process.action].verify(effect)


def why_never(context: HudiContext) -> str | None:
    if why := switched_off(context, context.action) or ACTIONS[context.action].impossible(context):
        return why
    return why_unknown(context.snapshot, versions(context.values))


def is_sensible(row: kit.SettingRow[object], text: str) -> bool:
    try:
        row.parse(text, "request")
    except Invalid:
        return False
    return True
