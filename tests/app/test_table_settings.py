# SPDX-License-Identifier: Apache-2.0
"""The settings of a table with the real plugins: values, and where each comes from."""

from datetime import datetime, timezone

import pytest

from lakehand.api.tables import SettingAnswer
from lakehand.app.plugins import PluginConfig, load
from lakehand.core.plugins.registry import Plugins
from lakehand.core.services.explain import effective_settings
from lakehand.domain.tables import Format, Table, TableId, TableSpec

NOW = datetime(2026, 11, 17, tzinfo=timezone.utc)


@pytest.fixture(scope="module")
def plugins() -> Plugins:
    operator = PluginConfig(properties={"delta.optimize.min-files": "7", "delta.vacuum.retain-floor": "8d"})
    return load({("process-factory", "delta"): operator}, None)


def settings_of(plugins: Plugins, **properties: str) -> dict[str, SettingAnswer]:
    own = {key.replace("__", ".").replace("_", "-"): value for key, value in properties.items()}
    spec = TableSpec(location="/data/t", format=Format("delta"), properties=own)
    table = Table(id=TableId(1), spec=spec, created_at=NOW, updated_at=NOW)
    return {one.key: one for one in effective_settings(plugins, table)}


def test_each_value_says_where_it_comes_from(plugins: Plugins) -> None:
    found = settings_of(plugins, delta__z_order__columns="id,day")

    values = {key: (one.value, one.origin) for key, one in found.items()}
    assert values["delta.optimize.min-files"] == ("7", "plugin")
    assert values["delta.z-order.columns"] == ("id,day", "table")
    assert values["delta.optimize.enabled"] == ("true", "default")
    assert list(found) == sorted(found)


def test_a_retention_is_never_shown_below_its_floor(plugins: Plugins) -> None:
    short = settings_of(plugins, delta__vacuum__retain="1d")["delta.vacuum.retain"]

    assert (short.value, short.floor, short.origin) == ("8d", "8d", "table")
    assert "delta.vacuum.retain-floor" not in settings_of(plugins)


def test_a_value_that_cannot_be_read_is_shown_with_the_reason(plugins: Plugins) -> None:
    found = settings_of(plugins, delta__optimize__small_file_share="half")

    assert "use a share from 0 to 1" in found["delta.optimize.small-file-share"].value
    assert found["delta.optimize.min-files"].value == "7"


def test_settings_of_other_formats_are_not_shown(plugins: Plugins) -> None:
    assert {key.split(".")[0] for key in settings_of(plugins)} == {"delta"}
