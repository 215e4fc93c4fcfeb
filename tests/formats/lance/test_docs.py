# SPDX-License-Identifier: Apache-2.0
"""Holds the page about Lance to the code: every setting has a row with its default, and every row a setting."""

import re
from pathlib import Path

from lakehand.formats.lance import settings, snapshot

ROOT = Path(__file__).parents[3]
ROW = re.compile(r"^\| `(lance\.[a-z.-]+)` \| `?([\w.]+)`? \|", re.MULTILINE)
DEFAULTS = {
    settings.TARGET_ROWS: snapshot.TARGET_ROWS,
    settings.TARGET_BYTES: snapshot.TARGET_BYTES,
    settings.MIN_FRAGMENTS: settings.MIN_FRAGMENTS_DEFAULT,
    settings.DELETED_SHARE: snapshot.DELETED_SHARE,
    settings.MAX_BYTES: settings.MAX_BYTES_DEFAULT,
    settings.MAX_AGE: int(settings.MAX_AGE_DEFAULT.total_seconds()),
    settings.RETAIN: 1,
    settings.MIN_VERSIONS: 1,
    settings.AGE_FLOOR: int(settings.HARD_FLOOR.total_seconds()),
    **{f"lance.{action}.enabled": "true" for action in settings.OPTIONS},
    **{f"lance.{action}.cool-down": 6 * 3600 for action in settings.OPTIONS},
}


def test_every_setting_has_a_row_with_its_default_and_every_row_a_setting() -> None:
    rows = dict(ROW.findall((ROOT / "docs" / "lance.md").read_text(encoding="utf-8")))

    assert rows == {key: str(default) for key, default in DEFAULTS.items()}
