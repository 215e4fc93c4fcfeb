# SPDX-License-Identifier: Apache-2.0
"""The settings that count for one table, each with where its value comes from."""

from collections.abc import Iterator, Sequence
from typing import Any

from lakehand.api.tables import SettingAnswer
from lakehand.core.plugins.registry import Plugins
from lakehand.domain.errors import Invalid
from lakehand.domain.tables import Table
from lakehand.spi.config import TableConfig, layered
from lakehand.spi.kit import FormatSettings, SetBy, SettingRow, value_text


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
