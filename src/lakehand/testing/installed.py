# SPDX-License-Identifier: Apache-2.0
"""The formats that are installed here, for the tests of a plugin that brings an action for one of them."""

from collections.abc import Mapping
from importlib.metadata import entry_points

from lakehand.spi import TableFormat


def installed_format(name: str, properties: Mapping[str, str] | None = None) -> TableFormat:
    """The format of that name, open, as the service would load it."""
    [entry] = entry_points(group="lakehand.table_formats", name=name)
    plugin = entry.load()()
    assert isinstance(plugin, TableFormat), f"{entry.value} is no TableFormat"
    plugin.open(properties or {})
    return plugin
