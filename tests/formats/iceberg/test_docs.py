# SPDX-License-Identifier: Apache-2.0
"""Holds the page about Iceberg to the code: every setting has a row, every row a setting, and defaults are as told."""

import os
import re
from pathlib import Path

import pytest

from lakehand.app.settings import load
from lakehand.formats.iceberg import settings
from lakehand.formats.iceberg.jdbc import address
from tests.formats.iceberg.made import MadeRuntime, snapshot

ROOT = Path(__file__).parents[3]
ROW = re.compile(r"^\| `(iceberg\.[a-z.-]+)` \| ([^|]+) \|", re.MULTILINE)
PAGE = (ROOT / "docs" / "iceberg.md").read_text(encoding="utf-8")
ROWS = dict(ROW.findall(PAGE))


def test_every_setting_has_a_row_and_every_row_a_setting() -> None:
    keys = {value for value in vars(settings).values() if isinstance(value, str) and value.startswith("iceberg.")}
    switches = {f"iceberg.{action}.enabled" for action in settings.OPTIONS}
    assert set(ROWS) == keys | switches


def test_the_defaults_are_those_of_the_page() -> None:
    config = MadeRuntime(snapshot()).config
    rules, floors = settings.data_rules(config, snapshot()), settings.Floors()
    told = {
        settings.MIN_INPUT_FILES: rules.min_files,
        settings.DELETE_FILES: rules.delete_files,
        settings.DELETE_RATIO: rules.delete_ratio,
        settings.MAX_FILES: rules.max_files,
        settings.DELETES_MIN_INPUT_FILES: settings.delete_rules(config, snapshot()).min_files,
        settings.MIN_MANIFESTS: settings.manifest_rules(config, snapshot()).min_manifests,
        settings.MAX_AGE: f"{settings.max_age(config, floors).total_seconds() / 3600:g}",
        settings.MIN_SNAPSHOTS: settings.min_snapshots(config),
        settings.FLINK_AGE: f"{settings.flink_age(config).total_seconds() / 3600:g}",
        settings.OLDER_THAN: f"{settings.orphan_age(config, floors).total_seconds() / 3600:g}",
        settings.MAX_AGE_FLOOR: f"{floors.max_age.total_seconds() / 3600:g}",
        settings.OLDER_THAN_FLOOR: f"{floors.orphan_age.total_seconds() / 3600:g}",
    }
    assert {key: ROWS[key].strip() for key in told} == {key: str(value) for key, value in told.items()}


def test_the_example_of_a_catalog_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("LAKEHAND_")]:
        monkeypatch.delenv(name)
    [example] = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "lakehand.toml").write_text(example, encoding="utf-8")
    catalog = load(config=tmp_path / "lakehand.toml").catalog_map()["lake"]
    assert (catalog.type, str(address(catalog.reader_properties))) == (
        "jdbc",
        "postgresql+psycopg://lakehand@db.example/iceberg",
    )
