# SPDX-License-Identifier: Apache-2.0
"""Every setting that a file of a format declares is one of its factory: else nobody could set it, or read of it."""

import pkgutil
from importlib import import_module

import pytest

from lakehand.spi.kit import rows_in
from tools.settings_tables import FACTORIES


@pytest.mark.parametrize("format", FACTORIES)
def test_a_declared_setting_is_a_setting_of_the_factory(format: str) -> None:
    package = import_module(f"lakehand.formats.{format}")
    modules = [import_module(f"{package.__name__}.{one.name}") for one in pkgutil.iter_modules(package.__path__)]
    declared = {row.key for module in modules for row in rows_in(vars(module))}
    known = [row.key for row in FACTORIES[format]().settings.rows]
    assert sorted(declared - set(known)) == []
    assert sorted(key for key in known if known.count(key) > 1) == []
