# SPDX-License-Identifier: Apache-2.0
"""Setting rows for people: as fields, for commands and JSON, and as the table of a Markdown page."""

from collections.abc import Iterable
from typing import Any

from lakehand.spi.kit.rows import SettingRow, SettingType, written

FIELDS = ("setting", "type", "default", "floor", "set_by", "meaning")


def described(row: SettingRow[Any]) -> dict[str, str]:
    """Every field as text; an empty floor means that there is none."""
    kind = f"one of {', '.join(row.choices)}" if row.type is SettingType.CHOICE else str(row.type)
    default = row.default_text or written(row.type, row.default)
    floor = "" if row.floor is None else written(row.type, row.floor)
    return dict(zip(FIELDS, (row.key, kind, default, floor, str(row.set_by), row.meaning), strict=True))


def markdown_table(rows: Iterable[SettingRow[Any]]) -> str:
    lines = [f"| {' | '.join(name.replace('_', ' ') for name in FIELDS)} |", "|---" * len(FIELDS) + "|"]
    for fields in map(described, rows):
        setting = f"`{fields.pop('setting')}`"
        lines.append(f"| {' | '.join([setting, *fields.values()])} |")
    return "\n".join(lines)
