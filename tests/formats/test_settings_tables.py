# SPDX-License-Identifier: Apache-2.0
"""Holds the settings tables in docs/ to the code: each is what its format's rows make of it."""

import pytest

from tools.settings_tables import DOCS, FACTORIES, with_table


@pytest.mark.parametrize("name", FACTORIES)
def test_the_settings_table_of_a_format_is_made_from_its_rows(name: str) -> None:
    page = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    assert page == with_table(name, page), "run: python -m tools.settings_tables"


@pytest.mark.parametrize("name", FACTORIES)
def test_every_key_is_of_its_format_and_there_once(name: str) -> None:
    keys = [row.key for row in FACTORIES[name]().settings.rows]
    assert len(keys) == len(set(keys))
    assert all(key.startswith((f"{name}.", "hoodie.")) for key in keys)
    assert not [key for key in keys if key.endswith(("-hours", "-seconds", "-days", "-minutes"))]
