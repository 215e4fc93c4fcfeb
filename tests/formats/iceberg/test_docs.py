# SPDX-License-Identifier: Apache-2.0
"""Holds the page about Iceberg to the code: its example of a catalog is accepted."""

import os
import re
from pathlib import Path

import pytest

from lakehand.app.settings import load
from lakehand.storage import database_address

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "iceberg.md").read_text(encoding="utf-8")


def test_the_example_of_a_catalog_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("LAKEHAND_")]:
        monkeypatch.delenv(name)
    [example] = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "lakehand.toml").write_text(example, encoding="utf-8")
    catalog = load(config=tmp_path / "lakehand.toml").catalog_map()["lake"]
    assert (catalog.type, str(database_address(catalog.reader_properties))) == (
        "jdbc",
        "postgresql+psycopg://lakehand@db.example/iceberg",
    )
