# SPDX-License-Identifier: Apache-2.0
"""Explains a table from stored facts: why something runs or not, when it is evaluated next, which settings count."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from lakehand.api.events import event_answer
from lakehand.api.operations import ActionAnswer, ExplanationAnswer, operation_answer
from lakehand.api.tables import SettingAnswer, table_answer
from lakehand.core.plugins.registry import Plugins
from lakehand.core.ports import Store
from lakehand.domain.actions import Action
from lakehand.domain.errors import Invalid
from lakehand.domain.operations import Operation, Status
from lakehand.domain.routing import choice_of
from lakehand.domain.schedules import Schedule
from lakehand.domain.tables import Table, TableId
from lakehand.spi.config import TableConfig, layered
from lakehand.spi.kit import FormatSettings, SetBy, SettingRow, value_text

RECENT = 50  # operations that are read: of those that wait, and of those that are finished


@dataclass(frozen=True, kw_only=True)
class Explainer:
    store: Store
    plugins: Plugins
    waits: Callable[[Table, Sequence[Operation]], Mapping[int, str]]  # why each is not dispatched now, by the rules

    def explain(self, id: TableId) -> ExplanationAnswer:
        table = self.store.tables.get(id)
        known = self.store.operations.of_table(id, recent=RECENT, waiting=RECENT)
        waits = self.waits(table, known)
        operations = [with_wait(o, waits) for o in known]
        counts = self.store.operations.unfinished(id)
        schedules = {s.action: s for s in self.store.schedules.of_table(id)}
        names = sorted({*self.plugins.actions_of(table.format), *table.spec.action_types})
        actions = [
            self.explain_action(table, name, operations, schedules.get(name), count=counts.get(name, 0))
            for name in names
        ]
        return ExplanationAnswer(
            table=table_answer(table),
            summary=summary(table, actions, sum(counts.values())) + self.hint(id),
            next_evaluation=min((a.next_evaluation for a in actions if a.next_evaluation), default=None),
            actions=actions,
            events=[event_answer(stored) for stored in self.store.events.list(table=id, limit=50).items],
        )

    def hint(self, id: TableId) -> str:
        """Where the next decision looks first."""
        text = self.store.partitions.changed(id).text
        return f"; {text}" if text else ""

    def explain_action(
        self, table: Table, action: Action, operations: Sequence[Operation], schedule: Schedule | None, *, count: int
    ) -> ActionAnswer:
        """``count``: all of its unfinished operations, of which only the first few were read."""
        mine = [o for o in operations if o.process.action == action]
        ended = next((o for o in mine if o.status.is_final), None)
        unfinished = [o for o in mine if not o.status.is_final]
        wanted = action in table.spec.action_types
        return ActionAnswer(
            action=action,
            wanted=wanted,
            now=sentence(table, action, unfinished, schedule, wanted=wanted, count=count),
            evaluated_at=schedule.evaluated_at if schedule else None,
            last_decision=schedule.last_decision if schedule else None,
            last_start=schedule.last_start if schedule else None,
            next_evaluation=self.next_evaluation(table, schedule) if schedule else None,
            unfinished=[operation_answer(o, table) for o in unfinished],
            last_finished=operation_answer(ended, table) if ended else None,
        )

    def next_evaluation(self, table: Table, schedule: Schedule) -> datetime:
        """A probe that finds a change wakes each change-driven action."""
        if table.probe_due is None or not self.plugins.follows_changes(table.format, schedule.action):
            return schedule.due
        return min(schedule.due, table.probe_due)


def with_wait(operation: Operation, waits: Mapping[int, str]) -> Operation:
    return replace(operation, reason=waits[operation.id]) if operation.id in waits else operation


def sentence(
    table: Table,
    action: Action,
    unfinished: Sequence[Operation],
    schedule: Schedule | None,
    *,
    wanted: bool,
    count: int,
) -> str:
    if unfinished:
        return operation_sentence(unfinished[-1], waiting=max(count, len(unfinished)) - 1)
    if not wanted:
        return f"not wanted: lakehand tables change {table.id} --actions +{action}"
    if table.paused:
        return f"the table is paused: {table.pause_reason or f'lakehand tables resume {table.id}'}"
    if schedule is None or schedule.evaluated_at is None:
        return "registered, not evaluated yet"
    return schedule.last_reason or "evaluated; no reason was given"


def operation_sentence(operation: Operation, *, waiting: int) -> str:
    more = f"; {waiting} more wait" if waiting else ""
    if operation.status is Status.PENDING:
        return f"operation {operation.id} waits: {operation.reason or operation.process.reason}{more}"
    phase = operation.progress.get("phase")
    doing = f" ({phase})" if phase else ""
    why = choice_of(operation.process)
    where = f" on {operation.process.engine} ({why})" if why else ""
    return f"operation {operation.id} is {operation.status}{doing}{where}, attempt {operation.run_times}{more}"


def summary(table: Table, actions: Sequence[ActionAnswer], unfinished: int) -> str:
    if table.removed:
        return "removed from the service"
    if table.paused:
        return f"paused: {table.pause_reason or 'nothing is started'}"
    live = [o for a in actions for o in a.unfinished if o.status.is_live]
    if live:
        return f"{len(live)} running"
    return f"{unfinished} waiting" if unfinished else "nothing to do"


def effective_settings(plugins: Plugins, table: Table) -> Sequence[SettingAnswer]:
    """By key. A plugin that is not built with the kit declares none."""
    names = {factory.name for (on, _), factory in plugins.factories.items() if on == table.format}
    found = [one for name in names for one in settings_of(plugins, name, table)]
    return sorted(found, key=lambda one: one.key)


def settings_of(plugins: Plugins, factory: str, table: Table) -> Iterator[SettingAnswer]:
    settings = plugins.settings.get(factory)
    if settings is None:
        return
    config = layered(("plugin", plugins.properties.get(factory, {})), ("table", table.spec.properties))
    for row in settings.rows:
        if row.set_by not in (SetBy.REQUEST_ONLY, SetBy.OPERATOR):
            yield SettingAnswer(
                key=row.key, value=value_of(settings, config, row), origin=config.origin(row.key),
                floor=floor_of(settings, row), meaning=row.meaning,
            )  # fmt: skip


def value_of(settings: FormatSettings, config: TableConfig, row: SettingRow[Any]) -> str:
    """A value that cannot be read is shown with the reason, instead of hiding all others."""
    try:
        value = settings.of(config).get(row)
    except Invalid as error:
        return str(error)
    return row.default_text or value_text(row.type, None) if value is None else value_text(row.type, value)


def floor_of(settings: FormatSettings, row: SettingRow[Any]) -> str:
    floor = settings.floor(row)
    return value_text(row.type, floor) if floor and row.is_retention else ""
