# SPDX-License-Identifier: Apache-2.0
"""The values of a partition out of Paimon's binary rows, and the time that they name: by Paimon's rule, or stricter.

What cannot be read for sure has no time, and is never old.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

_TEXT = re.compile(r"(STRING|VARCHAR|CHAR)\b")
_NUMBERS = {"TINYINT": 1, "SMALLINT": 2, "INT": 4, "BIGINT": 8, "DATE": 4}  # bytes; a date is the number of its day
_DEFAULT = re.compile(
    r"(?P<y>\d{4})-(?P<M>\d{1,2})-(?P<d>\d{1,2})( (?P<H>\d{1,2}):(?P<m>\d{1,2}):(?P<s>\d{1,2})(\.\d{1,9})?)?"
)
# Of Java's patterns those that mean one thing only: fixed digits, and literal characters between them.
_FIELDS = {"yyyy": 4, "uuuu": 4, "MM": 2, "dd": 2, "HH": 2, "mm": 2, "ss": 2}
_PIECE = re.compile(r"'([^']+)'|([A-Za-z])\2*|[^A-Za-z'\[\]{}#]")
_COLUMN = re.compile(r"\w+")


class NoTime(ValueError):
    """The value, type or pattern names no time that Lakehand can tell for sure."""


def values_of(partition: bytes, types: Sequence[str]) -> list[str]:
    """As texts, as Paimon makes them. Null and values of other types raise."""
    row = partition[4:]
    if int.from_bytes(partition[:4], "big") != len(types):
        raise NoTime(f"a partition of {len(types)} columns has {partition[:4].hex()}")
    slots = (len(types) + 71) // 64 * 8
    return [value_at(row, slots + 8 * number, number, kind) for number, kind in enumerate(types)]


def value_at(row: bytes, at: int, number: int, type: str) -> str:
    bit, slot = number + 8, row[at : at + 8]  # the first byte of a row is not about nulls
    if len(slot) != 8 or row[bit // 8] >> bit % 8 & 1:
        raise NoTime("the value is null")
    if _TEXT.match(type):
        return text_at(row, slot)
    size = _NUMBERS.get(type.partition(" ")[0])
    if size is None:
        raise NoTime(f"values of type {type} name no time")
    return str(int.from_bytes(slot[:size], "little", signed=True))


def text_at(row: bytes, slot: bytes) -> str:
    """Short texts lie in the slot itself, with their length at its end; for longer ones it has length and place."""
    if slot[7] & 0x80:
        return slot[: slot[7] & 0x7F].decode()
    size, start = int.from_bytes(slot[:4], "little"), int.from_bytes(slot[4:], "little")
    if start + size > len(row):
        raise NoTime("the value is cut short")
    return row[start : start + size].decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeRule:
    """``partition.timestamp-pattern`` puts values together, ``partition.timestamp-formatter`` says how to read them."""

    columns: tuple[str, ...]
    formatter: str = ""
    pattern: str = ""

    def time_of(self, values: Sequence[str]) -> datetime:
        """In UTC, since no value says in which zone it was made."""
        if any(not text.isprintable() or "$" in text or "\\" in text for text in values):
            raise NoTime("the value has characters that Paimon gives a meaning")
        text = self.joined(dict(zip(self.columns, values, strict=True))) if self.pattern else values[0]
        found = (compile_formatter(self.formatter) if self.formatter else _DEFAULT).fullmatch(text)
        if found is None or not text.isascii():
            raise NoTime(f"{text!r} is no time")
        return moment(found.groupdict())

    def joined(self, values: Mapping[str, str]) -> str:
        """Column by column, as Paimon does: $a is replaced in $ab as well."""
        text = self.pattern
        for column, value in values.items():
            if not _COLUMN.fullmatch(column):
                raise NoTime(f"{column!r} is no plain name")
            text = text.replace(f"${column}", value)
        return text


def compile_formatter(formatter: str) -> re.Pattern[str]:
    at, made = 0, ""
    for piece in _PIECE.finditer(formatter):
        if piece.start() != at:
            break
        at, text = piece.end(), piece[0]
        if piece[2] and text not in _FIELDS:
            raise NoTime(f"the formatter {formatter!r} has {text}, which Lakehand does not read")
        name = text[0].replace("u", "y")
        made += f"(?P<{name}>\\d{{{_FIELDS[text]}}})" if piece[2] else re.escape(piece[1] or text)
    if at != len(formatter) or any(f"<{field}>" not in made for field in "yMd"):
        raise NoTime(f"the formatter {formatter!r} names no day, or has more than Lakehand reads")
    try:
        return re.compile(made)
    except re.error as error:
        raise NoTime(f"the formatter {formatter!r} names a part of the time twice") from error


def moment(found: Mapping[str, str | None]) -> datetime:
    parts = [int(found.get(field) or 0) for field in "yMdHms"]
    try:
        return datetime(*parts, tzinfo=timezone.utc)  # type: ignore[arg-type, misc]
    except ValueError as error:
        raise NoTime(str(error)) from error
