# SPDX-License-Identifier: Apache-2.0
"""Drops partitions past their age. Rows go on purpose: only where someone set an age, never below a floor."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from lakehand.formats.paimon.context import PaimonContext, PaimonEffect, set_retention
from lakehand.formats.paimon.layout import Document, PaimonFile
from lakehand.formats.paimon.schema import TableSchema, span_of
from lakehand.formats.paimon.snapshot import PaimonSnapshot
from lakehand.spi import Action, Json, Skip, Verdict, amount, at_fixed_rate, kit
from lakehand.spi.kit import Need, duration_text
from lakehand.spi.kit.conversions import fields, items, milliseconds, moment_of, whole_number, whole_numbers
from lakehand.spi.kit.verdicts import done, not_done

_TEXT = re.compile(r"(STRING|VARCHAR|CHAR)\b")
_NUMBERS = {"TINYINT": 1, "SMALLINT": 2, "INT": 4, "BIGINT": 8, "DATE": 4}  # bytes; a date is the number of its day
_DEFAULT = re.compile(
    r"(?P<y>\d{4})-(?P<M>\d{1,2})-(?P<d>\d{1,2})( (?P<H>\d{1,2}):(?P<m>\d{1,2}):(?P<s>\d{1,2})(\.\d{1,9})?)?"
)
# Of Java's patterns those that mean one thing only: fixed digits, and literal characters between them.
_FIELDS = {"yyyy": 4, "uuuu": 4, "MM": 2, "dd": 2, "HH": 2, "mm": 2, "ss": 2}
_PIECE = re.compile(r"'([^']+)'|([A-Za-z])\2*|[^A-Za-z'\[\]{}#]")
_COLUMN = re.compile(r"\w+")
OWN_AGE = "partition.expiration-time"
STRATEGY = "partition.expiration-strategy"
FORMATTER, PATTERN = "partition.timestamp-formatter", "partition.timestamp-pattern"
BY_VALUES, BY_UPDATE = "values-time", "update-time"
# Neither a value nor a file says in which zone its time was made: no zone is further behind than this.
ZONES = timedelta(hours=12)
SHOWN = 3
MOST = 10_000  # of one run, whatever is set; the job takes no more
OLDER_THAN = kit.duration_setting(
    "paimon.expire-partitions.older-than", "partitions are kept this long; the table's own option counts when it is"
    " longer", default_text="the table's `partition.expiration-time`, else forever", floor=timedelta(days=7),
    is_retention=True, set_by=kit.SetBy.REQUEST,
)  # fmt: skip
MAX_PARTITIONS = kit.count_setting(
    "paimon.expire-partitions.max-partitions", "partitions that one run drops, oldest first", 100, floor=1,
    set_by=kit.SetBy.REQUEST,
)  # fmt: skip
TIME_FORMATTER = kit.text_setting(
    "paimon.expire-partitions.timestamp-formatter", "how to read a partition's time, for instance `yyyyMMdd`",
    default_text="the table's `partition.timestamp-formatter`, else `yyyy-MM-dd` with or without a time",
)  # fmt: skip
TIME_PATTERN = kit.text_setting(
    "paimon.expire-partitions.timestamp-pattern", "which columns make the time, for instance `$day $hour:00:00`",
    default_text="the table's `partition.timestamp-pattern`, else the first partition column",
)  # fmt: skip


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
            raise NoTime(f"{text!r} is not a time")
        return moment(found.groupdict())

    def joined(self, values: Mapping[str, str]) -> str:
        """Column by column, as Paimon does: $a is replaced in $ab as well."""
        text = self.pattern
        for column, value in values.items():
            if not _COLUMN.fullmatch(column):
                raise NoTime(f"{column!r} is not a plain name")
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


@dataclass(frozen=True, slots=True, kw_only=True)
class AgedPartition:
    key: bytes
    name: str
    time: datetime
    files: int
    rows: int
    bytes: int

    def as_parameter(self) -> dict[str, Json]:
        return {"key": self.key.hex(), "name": self.name, "files": self.files, "rows": self.rows}


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionExpiry:
    """``partitions`` are those of one run, oldest first."""

    age: timedelta
    cutoff: datetime
    partitions: tuple[AgedPartition, ...]
    old: int  # all that are past their age
    timeless: int  # whose values are not a time
    all: int

    def describe(self) -> str:
        timeless = f"; {self.timeless} have values that name no time, and stay" if self.timeless else ""
        text = f"{self.old} of {self.all} partitions are older than {duration_text(self.age)}"
        if not self.partitions:
            return f"{text}{timeless}"
        names = ", ".join(one.name for one in self.partitions[:SHOWN])
        names = f"{names} and {len(self.partitions) - SHOWN} more" if len(self.partitions) > SHOWN else names
        files, rows = sum(one.files for one in self.partitions), sum(one.rows for one in self.partitions)
        size = amount(sum(one.bytes for one in self.partitions))
        return f"{text}: {names} to drop, {rows} rows in {files} files, {size}{timeless}"


def decide(context: PaimonContext) -> Need | Skip:
    if why := why_not_expired(context):
        return Skip(reason=why)
    found = find_expired(context)
    if not found.partitions and not context.by_person:
        return Skip(reason=found.describe())
    return Need(reason=found.describe())


def why_not_expired(context: PaimonContext) -> str | None:
    snapshot, schema = context.snapshot, context.snapshot.schema
    if not schema.partition_keys:
        return "the table has 0 partition columns"
    if age_of(context) is None:
        return f"0 partitions expire: neither the table's option {OWN_AGE} nor {OLDER_THAN.key} is set"
    if (strategy := schema.options.get(STRATEGY, BY_VALUES)) not in (BY_VALUES, BY_UPDATE):
        return f"the table's option {STRATEGY} is {strategy!r}, which Paimon 0.9 does not have"
    if lost := snapshot.content.lost:
        return f"{len(lost)} files are deleted that are not in the table: Paimon refuses to drop partitions here"
    return None


def age_of(context: PaimonContext) -> timedelta | None:
    """The longest that anyone wants, if the table or a setting wants any; a request can only keep longer."""
    own, row = context.snapshot.schema.options.get(OWN_AGE), OLDER_THAN
    if own is None and set_retention(context, row) is None:
        return None
    floor, asked = context.values.settings.floor(row), context.values.get(row)
    return max(one for one in (span_of(own) if own else None, asked, floor) if one is not None)


def find_expired(context: PaimonContext) -> PartitionExpiry:
    age = age_of(context)
    assert age is not None, "asked before"
    cutoff, snapshot = context.table.now - age - ZONES, context.snapshot
    grouped = files_by_partition(snapshot)
    dated = [one for key, files in grouped.items() if (one := aged(context, key, files)) is not None]
    old = sorted((one for one in dated if one.time < cutoff), key=lambda one: (one.time, one.key))
    return PartitionExpiry(
        age=age, cutoff=cutoff, partitions=tuple(old[: min(context.values[MAX_PARTITIONS], MOST)]),
        old=len(old), timeless=len(grouped) - len(dated), all=len(grouped),
    )  # fmt: skip


def files_by_partition(snapshot: PaimonSnapshot) -> Mapping[bytes, list[PaimonFile]]:
    found: dict[bytes, list[PaimonFile]] = defaultdict(list)
    for file in snapshot.files:
        found[file.partition].append(file)
    return found


def aged(context: PaimonContext, key: bytes, files: list[PaimonFile]) -> AgedPartition | None:
    """None when its time is not known for sure."""
    schema = context.snapshot.schema
    try:
        values = values_of(key, schema.partition_types)
        time = moment_of(max(file.created for file in files))
        if schema.options.get(STRATEGY, BY_VALUES) == BY_VALUES:
            time = rule_of(context).time_of(values)
    except (NoTime, UnicodeDecodeError):
        return None
    return AgedPartition(
        key=key, name=partition_name(schema, values), time=time, files=len(files),
        rows=sum(file.rows for file in files), bytes=sum(file.size for file in files),
    )  # fmt: skip


def partition_name(schema: TableSchema, values: list[str]) -> str:
    return "/".join(f"{column}={value}" for column, value in zip(schema.partition_keys, values, strict=True))


def rule_of(context: PaimonContext) -> TimeRule:
    """The table's own options win: its owner knows what its values mean."""
    options, values = context.snapshot.schema.options, context.values
    return TimeRule(
        columns=context.snapshot.schema.partition_keys,
        formatter=options.get(FORMATTER) or values[TIME_FORMATTER],
        pattern=options.get(PATTERN) or values[TIME_PATTERN],
    )


def limits(context: PaimonContext) -> dict[str, Json]:
    found, rule = find_expired(context), rule_of(context)
    partitions: list[Json] = [one.as_parameter() for one in found.partitions]
    options = {
        STRATEGY: context.snapshot.schema.options.get(STRATEGY, BY_VALUES), FORMATTER: rule.formatter,
        PATTERN: rule.pattern,
    }  # fmt: skip
    return {
        "partitions": partitions,
        "cutoff": milliseconds(found.cutoff),
        "rule": {key: value for key, value in options.items() if value},
    }


def verify(effect: PaimonEffect) -> Verdict:
    snapshot, before = effect.snapshot, whole_number(effect.parameters.get(kit.BEFORE))
    announced = announced_partitions(effect.parameters)
    if commits := snapshot.tagged(str(effect.parameters.get(kit.TAG)), after=before):
        return dropping_verdict(effect, commits[0], announced)
    reported = whole_numbers(effect.result.get("snapshots"))
    if reported and max(reported) < snapshot.earliest:
        return done(f"snapshot {max(reported)} was its work, and has expired since: the oldest is {snapshot.earliest}")
    left = {file.partition for file in snapshot.files} & announced.keys()
    if not left:
        return done(f"nothing to do: none of {len(announced)} partitions has files", changed=False)
    return not_done(f"{len(left)} of {len(announced)} partitions are still there, {announced[min(left)]} first")


def dropping_verdict(effect: PaimonEffect, commit: Document, announced: Mapping[bytes, str]) -> Verdict:
    """The snapshot took away all files of exactly the announced partitions, and added none."""
    manifests, number = effect.snapshot.manifests, commit["id"]
    changes = manifests.changes(commit)
    dropped = {entry.file.partition for entry in changes}
    left = {file.partition for file in manifests.content(commit).files} & announced.keys()
    if left or dropped != announced.keys() or any(entry.is_added for entry in changes):
        return not_done(f"snapshot {number} touched {len(dropped)} partitions, and {len(announced)} were announced")
    rows = sum(entry.file.rows for entry in changes)
    numbers: dict[str, Json] = {
        "snapshots": [number],
        "dropped_partitions": len(dropped),
        "dropped_rows": rows,
        **kit.work_numbers(files_removed=len(changes)),
    }
    return done(
        f"snapshot {number}: {len(dropped)} partitions with {rows} rows in {len(changes)} files are dropped", numbers
    )


def announced_partitions(parameters: Mapping[str, Json]) -> dict[bytes, str]:
    """Names by key."""
    found = [fields(one) for one in items(parameters.get("partitions"))]
    return {bytes.fromhex(str(one.get("key"))): str(one.get("name")) for one in found}


EXPIRE_PARTITIONS = kit.ActionDefinition(
    name=Action.register("expire-partitions"), strategy=at_fixed_rate(timedelta(days=1)),
    settings=(OLDER_THAN, MAX_PARTITIONS, TIME_FORMATTER, TIME_PATTERN), decide=decide, limits=limits, verify=verify,
    has_dry_run=True, is_optional=True,
)  # fmt: skip
