# SPDX-License-Identifier: Apache-2.0
"""One setting as a row: its key, type, default, floor, meaning and who may set it; parsing follows from the type."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Generic, TypeVar

from lakehand.domain.errors import Invalid
from lakehand.domain.texts import Word

T_co = TypeVar("T_co", covariant=True)
UNITS = {"d": timedelta(days=1), "h": timedelta(hours=1), "m": timedelta(minutes=1), "s": timedelta(seconds=1)}
LONGEST = timedelta(days=36_500)
FIELDS = ("setting", "type", "default", "floor", "set_by", "meaning")
_DURATION = re.compile(r"(\d{1,10})([dhms])")
_COUNT = re.compile(r"\d{1,15}")
_BYTES = re.compile(r"(\d{1,15}) ?([KMGT]?)B?", re.IGNORECASE)
_SHARE = re.compile(r"\d(\.\d{1,15})?")
_COLUMN = re.compile(r"[^\x00-\x1f\x7f`,]{1,255}")
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}


class SettingType(Word):
    TEXT = "text"
    FLAG = "flag"
    COUNT = "count"
    BYTES = "bytes"
    SHARE = "share"
    DURATION = "duration"
    COLUMNS = "columns"
    CHOICE = "choice"


class SetBy(Word):
    """Who may set a row. The operator's properties of the plugin count for all tables."""

    OPERATOR = "operator"
    TABLE = "operator, table"
    REQUEST = "operator, table, request"
    REQUEST_ONLY = "request"

    @property
    def is_option(self) -> bool:
        return self in (SetBy.REQUEST, SetBy.REQUEST_ONLY)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SettingRow(Generic[T_co]):
    """A setting, declared once. ``FORMAT.ACTION.NAME``, or ``FORMAT.NAME`` when it is about all actions."""

    key: str
    type: SettingType
    meaning: str
    default: T_co | None = None  # None: the reader brings one
    default_text: str = ""  # for the documentation: a default that depends on the table
    floor: T_co | None = None  # smaller values count as this
    is_retention: bool = False  # the longest of all that is set counts, and the operator can raise the floor
    choices: tuple[str, ...] = ()
    set_by: SetBy = SetBy.TABLE
    replaces: tuple[str, ...] = ()  # earlier keys: an error names this one, for options of the same name too
    floor_replaces: tuple[str, ...] = ()  # earlier keys of the operator's floor

    @property
    def option(self) -> str:
        """Its name in the options of a request."""
        return self.key.rpartition(".")[2]

    @property
    def action(self) -> str:
        """The action that it is about; empty: all of them."""
        parts = self.key.split(".")
        return parts[1] if len(parts) > 2 else ""

    @property
    def hint(self) -> str:
        return f"one of {', '.join(self.choices)}" if self.choices else TYPES[self.type][0]

    def parse(self, text: str, origin: str, name: str = "") -> T_co:
        try:
            value: T_co = TYPES[self.type][1](self, text.strip())
        except (ValueError, KeyError):
            raise Invalid(f"{name or self.key} is {text!r} (from {origin}): use {self.hint}") from None
        return value


def parse_duration(row: SettingRow[Any], text: str) -> timedelta:
    found = match(_DURATION, text)
    return min(int(found[1]) * UNITS[found[2]], LONGEST) if len(found[1]) < 8 else LONGEST


def parse_bytes(row: SettingRow[Any], text: str) -> int:
    found = match(_BYTES, text)
    return int(found[1]) * int(1024 ** _POWERS[found[2].upper()])


def parse_share(row: SettingRow[Any], text: str) -> float:
    share = float(match(_SHARE, text)[0])
    if share > 1:
        raise ValueError(text)
    return share


def parse_columns(row: SettingRow[Any], text: str) -> tuple[str, ...]:
    return tuple(match(_COLUMN, name.strip())[0] for name in text.split(",")) if text else ()


def match(pattern: re.Pattern[str], text: str) -> re.Match[str]:
    found = pattern.fullmatch(text) if text.isascii() or pattern is _COLUMN else None
    if found is None:
        raise ValueError(text)
    return found


# What to write, for the error about a value, and how it is parsed.
TYPES: Mapping[SettingType, tuple[str, Callable[[SettingRow[Any], str], Any]]] = {
    SettingType.TEXT: ("a text", lambda row, text: text),
    SettingType.FLAG: ("true or false", lambda row, text: {"true": True, "false": False}[text.lower()]),
    SettingType.COUNT: ("a whole number", lambda row, text: int(match(_COUNT, text)[0])),
    SettingType.BYTES: ("a number of bytes such as 134217728 or 128MB", parse_bytes),
    SettingType.SHARE: ("a share from 0 to 1 such as 0.3", parse_share),
    SettingType.DURATION: ("a duration such as 7d, 36h or 90s", parse_duration),
    SettingType.COLUMNS: ("names of columns with commas between them", parse_columns),
    SettingType.CHOICE: ("one of the choices", lambda row, text: row.choices[row.choices.index(text.lower())]),
}


def text_setting(key: str, meaning: str, default: str | None = "", **more: Any) -> SettingRow[str]:
    return SettingRow(key=key, type=SettingType.TEXT, meaning=meaning, default=default, **more)


def flag_setting(key: str, meaning: str, default: bool = True, **more: Any) -> SettingRow[bool]:
    return SettingRow(key=key, type=SettingType.FLAG, meaning=meaning, default=default, **more)


def count_setting(key: str, meaning: str, default: int | None = None, **more: Any) -> SettingRow[int]:
    return SettingRow(key=key, type=SettingType.COUNT, meaning=meaning, default=default, **more)


def bytes_setting(key: str, meaning: str, default: int | None = None, **more: Any) -> SettingRow[int]:
    return SettingRow(key=key, type=SettingType.BYTES, meaning=meaning, default=default, **more)


def share_setting(key: str, meaning: str, default: float | None = None, **more: Any) -> SettingRow[float]:
    return SettingRow(key=key, type=SettingType.SHARE, meaning=meaning, default=default, **more)


def duration_setting(key: str, meaning: str, default: timedelta | None = None, **more: Any) -> SettingRow[timedelta]:
    return SettingRow(key=key, type=SettingType.DURATION, meaning=meaning, default=default, **more)


def columns_setting(key: str, meaning: str, **more: Any) -> SettingRow[tuple[str, ...]]:
    return SettingRow(key=key, type=SettingType.COLUMNS, meaning=meaning, default=(), **more)


def choice_setting(key: str, meaning: str, *choices: str, **more: Any) -> SettingRow[str]:
    """The first choice is the default."""
    return SettingRow(key=key, type=SettingType.CHOICE, meaning=meaning, choices=choices, default=choices[0], **more)


def retention_setting(
    key: str, meaning: str, default: timedelta, floor: timedelta, **more: Any
) -> SettingRow[timedelta]:
    """How long something is kept: the longest that anyone sets counts, and the operator can raise the floor."""
    return duration_setting(key, meaning, default, floor=floor, is_retention=True, set_by=SetBy.REQUEST, **more)


def retained_count_setting(key: str, meaning: str, default: int, floor: int, **more: Any) -> SettingRow[int]:
    """How many are kept whatever their age: the most that anyone sets counts, and the operator can raise the floor."""
    return count_setting(key, meaning, default, floor=floor, is_retention=True, set_by=SetBy.REQUEST, **more)


def rows_in(names: Mapping[str, Any]) -> list[SettingRow[Any]]:
    """The rows that a module declares, in its order: ``rows_in(globals())``. Rows by action are in a mapping."""
    found = (one for value in names.values() for one in (value.values() if isinstance(value, dict) else (value,)))
    return [one for one in found if isinstance(one, SettingRow)]


def value_text(type: SettingType, value: Any) -> str:
    """A value as people set it: ``7d``, ``true``, ``128MB``."""
    if value is None or value in ("", ()):
        return "none"
    if isinstance(value, timedelta):
        return duration_text(value)
    if isinstance(value, tuple):
        return ",".join(value)
    if type is SettingType.BYTES:
        return in_units({f"{unit}B": 1024**power for unit, power in reversed(_POWERS.items()) if unit}, value, "")
    return str(value).lower()


def duration_text(span: timedelta) -> str:
    """``7d``, ``36h``, ``90s``: whole seconds in the largest unit without a rest."""
    return in_units({unit: one // UNITS["s"] for unit, one in UNITS.items()}, span // UNITS["s"], "s")


def in_units(units: Mapping[str, int], amount: int, smallest: str) -> str:
    for unit, size in units.items():
        if amount >= size and not amount % size:
            return f"{amount // size}{unit}"
    return f"{amount}{smallest}"


def describe(row: SettingRow[Any]) -> dict[str, str]:
    """Every field as text; an empty floor means that there is none."""
    kind = f"one of {', '.join(row.choices)}" if row.type is SettingType.CHOICE else str(row.type)
    default = row.default_text or value_text(row.type, row.default)
    floor = "" if row.floor is None else value_text(row.type, row.floor)
    return dict(zip(FIELDS, (row.key, kind, default, floor, str(row.set_by), row.meaning), strict=True))


def markdown_table(rows: Iterable[SettingRow[Any]]) -> str:
    lines = [f"| {' | '.join(name.replace('_', ' ') for name in FIELDS)} |", "|---" * len(FIELDS) + "|"]
    for fields in map(describe, rows):
        setting = f"`{fields.pop('setting')}`"
        lines.append(f"| {' | '.join([setting, *fields.values()])} |")
    return "\n".join(lines)
