# SPDX-License-Identifier: Apache-2.0
"""The settings of a format: what the operator set, what a request asks for, and the values that count for one table."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from lakehand.domain.actions import Action
from lakehand.domain.errors import Invalid
from lakehand.domain.processes import Json
from lakehand.spi.config import TableConfig, layered
from lakehand.spi.kit.rows import SetBy, SettingRow, flag_setting

T = TypeVar("T")
FLOOR = "-floor"
OPERATOR = "plugin"  # the origin of the operator's properties
REQUEST = "request"


class FormatSettings:
    """The rows of one format. Nothing is read before ``open`` has checked what the operator set."""

    def __init__(self, *rows: SettingRow[Any], passed_on: frozenset[str] = frozenset()) -> None:
        self.rows = tuple(with_floors(rows))
        self.passed_on = passed_on  # options of the format's own library, which a request may carry as well
        self._old = {old: row for row in self.rows for old in row.replaces}
        self._floors: dict[str, Any] = {row.key: row.floor for row in rows if row.floor is not None}
        self._properties: TableConfig = layered()

    def open(self, properties: Mapping[str, str]) -> None:
        """Check every property of ours; the operator's floors can only raise those in the code."""
        config = layered((OPERATOR, properties))
        self.refuse_old(config)
        values = {row.key: read(config, row) for row in self.rows}
        self._properties = config
        for row in self.rows:
            if row.is_retention:
                raised = values[row.key + FLOOR]
                self._floors[row.key] = row.floor if raised is None else max(raised, row.floor)

    def of(self, config: TableConfig, options: Mapping[str, str] | None = None) -> "Values":
        self.refuse_old(config)
        return Values(settings=self, config=config, options=options or {})

    def refuse_old(self, config: TableConfig) -> None:
        """A key that lost its unit is never ignored: a retention that does not count would be dangerous."""
        for old in self._old.keys() & config.settings.keys():
            row = self._old[old]
            raise Invalid(f"{old} (from {config.origin(old)}) is now {row.key}: use {row.hint}")

    def options_of(self, action: Action, parameters: Mapping[str, Json]) -> dict[str, str]:
        """What a request asks for, by key; an option that the action does not have is refused, not ignored."""
        options = parameters.get("options") or {}
        if not isinstance(options, Mapping):
            raise Invalid(f"options are names with values, not {options!r}")
        named = {str(name): value for name, value in options.items() if name not in self.passed_on}
        found = {self._option(action, name): option_text(name, value) for name, value in named.items()}
        for row, text in found.items():
            row.parse(text, REQUEST, row.option)
        return {row.key: text for row, text in found.items()}

    def _option(self, action: Action, name: str) -> SettingRow[Any]:
        """``max-age``, ``max_age`` and the whole key are the same."""
        rows = [row for row in self.rows if row.set_by.is_option and row.action == action]
        option = name.replace("_", "-")
        for row in rows:
            if option in (row.option, row.key):
                return row
            if option in {one for old in row.replaces for one in (old, old.rpartition(".")[2])}:
                raise Invalid(f"the option {name} is now {row.option}: use {row.hint}")
        can = ", ".join(sorted(row.option for row in rows)) or "none"
        raise Invalid(f"{action} has no option {name!r}; it has {can}")

    def floor(self, row: SettingRow[T]) -> T | None:
        return self._floors.get(row.key)

    def operator_value(self, row: SettingRow[T]) -> T | None:
        """What the operator set for all tables."""
        return read(self._properties, row)


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """What counts for one table, and for one request if there is one."""

    settings: FormatSettings
    config: TableConfig
    options: Mapping[str, str] = field(default_factory=dict)

    def __getitem__(self, row: SettingRow[T]) -> T:
        value = self.get(row)
        if value is None:
            raise LookupError(f"{row.key} has no default")
        return value

    def get(self, row: SettingRow[T]) -> T | None:
        """None: nobody has set it, and it has no default. Retention: the longest of all, which no request shortens."""
        requested = self._requested(row)
        configured = self._configured(row)
        configured = row.default if configured is None else configured
        if configured is None and requested is None:
            return None
        floor = self.settings.floor(row)
        counting = (configured, requested, floor) if row.is_retention or requested is None else (requested, floor)
        known: list[Any] = [one for one in counting if one is not None]
        value: T = max(known)
        return value

    def is_requested(self, row: SettingRow[Any]) -> bool:
        return row.key in self.options

    def origin(self, row: SettingRow[Any]) -> str:
        return REQUEST if self.is_requested(row) else self.config.origin(row.key)

    def switched_off(self, *switches: SettingRow[bool]) -> str | None:
        for row in switches:
            if not self[row]:
                return f"{row.key} is false (from {self.origin(row)})"
        return None

    def _configured(self, row: SettingRow[T]) -> T | None:
        if row.set_by is SetBy.OPERATOR:
            return self.settings.operator_value(row)
        return read(self.config, row) if row.set_by is not SetBy.REQUEST_ONLY else None

    def _requested(self, row: SettingRow[T]) -> T | None:
        text = self.options.get(row.key)
        return row.parse(text, REQUEST, row.option) if text is not None else None


def read(config: TableConfig, row: SettingRow[T]) -> T | None:
    found = config.settings.get(row.key)
    return row.parse(found.value, found.origin) if found else None


def with_floors(rows: Iterable[SettingRow[Any]]) -> Iterable[SettingRow[Any]]:
    """Each retention is followed by the row with which the operator raises its floor."""
    for row in rows:
        yield row
        if row.is_retention:
            yield replace(
                row, key=row.key + FLOOR, default=row.floor, floor=row.floor, is_retention=False,
                default_text="", set_by=SetBy.OPERATOR, replaces=row.floor_replaces, floor_replaces=(),
                meaning="no table and no request keeps less; the operator can raise it, and nobody can lower it",
            )  # fmt: skip


def switches(format: str, actions: Iterable[str]) -> list[SettingRow[bool]]:
    return [flag_setting(f"{format}.{one}.enabled", "false: the action is off, for requests too") for one in actions]


def option_text(name: str, value: Json) -> str:
    """An option as text: JSON has numbers and flags where a property has only text."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)) and all(isinstance(one, str) for one in value):
        return ",".join(str(one) for one in value)
    if not isinstance(value, (str, int, float)):
        raise Invalid(f"{name} is {value!r} (from request): use one value")
    return str(value)
