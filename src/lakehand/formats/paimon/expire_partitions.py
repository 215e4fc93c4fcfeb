# SPDX-License-Identifier: Apache-2.0
"""Drops partitions past their age. Rows go on purpose: only where someone set an age, never below a floor."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from lakehand.formats.paimon.context import PaimonContext, PaimonEffect, set_retention
from lakehand.formats.paimon.layout import Document, PaimonFile
from lakehand.formats.paimon.partition_times import NoTime, TimeRule, values_of
from lakehand.formats.paimon.schema import TableSchema, span_of
from lakehand.formats.paimon.snapshot import PaimonSnapshot
from lakehand.spi import Action, Json, Skip, Verdict, amount, at_fixed_rate, kit
from lakehand.spi.kit import Need, duration_text
from lakehand.spi.kit.conversions import fields, items, milliseconds, moment_of, whole_number, whole_numbers
from lakehand.spi.kit.verdicts import done, not_done

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
    " longer", default_text="the table's `partition.expiration-time`, else for ever", floor=timedelta(days=7),
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
    timeless: int  # whose values are no time
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
