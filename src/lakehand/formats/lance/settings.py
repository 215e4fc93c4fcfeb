# SPDX-License-Identifier: Apache-2.0
"""The settings of Lance tables: keys, defaults, and a floor under the age of versions that are cleaned.

Each may be set for all tables (properties of the plugin) or for one (its properties), except the floor: plugin only.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from lakehand.formats.lance import snapshot as defaults
from lakehand.formats.lance.snapshot import LanceSnapshot
from lakehand.spi import Action, Invalid, Json, TableConfig

TARGET_ROWS = "lance.compact.target-rows"
TARGET_BYTES = "lance.compact.target-bytes"
DELETED_SHARE = "lance.compact.deleted-rows-share"
MIN_FRAGMENTS = "lance.compact.min-fragments"
MAX_BYTES = "lance.compact.max-bytes"
MAX_AGE = "lance.clean-versions.max-age"
RETAIN = "lance.clean-versions.retain-versions"
MIN_VERSIONS = "lance.clean-versions.min-versions"
AGE_FLOOR = "lance.clean-versions.max-age-floor"

MIN_FRAGMENTS_DEFAULT = 10
MAX_BYTES_DEFAULT = 64 * 1024**3
MAX_AGE_DEFAULT = timedelta(days=14)
LONGEST_AGE = timedelta(days=36_500)
HARD_FLOOR = timedelta(days=1)  # not even the operator of the service goes below

# What a request may ask for, per action; everything else is refused.
OPTIONS: Mapping[str, frozenset[str]] = {
    "compact": frozenset({"target-rows", "deleted-rows-share"}),
    "clean-versions": frozenset({"max-age", "retain-versions"}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Floors:
    """What the operator of the service decides, for all tables."""

    max_age: timedelta = HARD_FLOOR


@dataclass(frozen=True, slots=True, kw_only=True)
class Goals:
    """What a compaction aims at."""

    target_rows: int
    deleted_share: float
    min_fragments: int
    max_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """What a cleaning keeps: versions younger than an age, and the newest ones whatever their age."""

    max_age: timedelta
    versions: int


def floors_of(properties: Mapping[str, str]) -> Floors:
    wanted = properties.get(AGE_FLOOR)
    return Floors(max_age=max(span(AGE_FLOOR, wanted), HARD_FLOOR) if wanted else HARD_FLOOR)


def goals(config: TableConfig, snapshot: LanceSnapshot, asked: Mapping[str, Json] | None = None) -> Goals:
    """The most particular wins: the request, the table or plugin, the table's own manifest, the default."""
    wish = asked or {}
    share = positive(
        "deleted-rows-share", wish.get("deleted-rows-share", config.ratio(DELETED_SHARE, defaults.DELETED_SHARE))
    )
    return Goals(
        target_rows=target_rows(config, snapshot, wish.get("target-rows")),
        deleted_share=min(share, 1.0),
        min_fragments=max(config.number(MIN_FRAGMENTS, MIN_FRAGMENTS_DEFAULT), 2),
        max_bytes=max(config.number(MAX_BYTES, MAX_BYTES_DEFAULT), 1),
    )


def target_rows(config: TableConfig, snapshot: LanceSnapshot, asked: Json) -> int:
    if asked is not None:
        return int(positive("target-rows", asked))
    own = snapshot.own_target_rows or ""
    rows = config.number(TARGET_ROWS, int(own) if own.isdigit() else defaults.TARGET_ROWS)
    return snapshot.target_rows(max(rows, 1), max(config.number(TARGET_BYTES, defaults.TARGET_BYTES), 1))


def retention(config: TableConfig, floors: Floors, asked: Mapping[str, Json] | None = None) -> Retention:
    """Table and request may keep more than the floor, and a request more than the table; never less."""
    wish = asked or {}
    age = max(span(MAX_AGE, config.text(MAX_AGE, str(MAX_AGE_DEFAULT.total_seconds()))), floors.max_age, HARD_FLOOR)
    versions = max(config.number(RETAIN, 1), 1)
    if "max-age" in wish:
        age = max(age, span("max-age", wish["max-age"]))
    if "retain-versions" in wish:
        versions = max(versions, int(positive("retain-versions", wish["retain-versions"])))
    return Retention(max_age=age, versions=versions)


def min_versions(config: TableConfig) -> int:
    return max(config.number(MIN_VERSIONS, 1), 1)


def switched_off(config: TableConfig, action: Action) -> str | None:
    key = f"lance.{action}.enabled"
    return None if config.flag(key, True) else f"{key} is false (from {config.origin(key)})"


def allowed(action: Action, asked: Json) -> dict[str, Json]:
    """The options of a request; raises when one is not known."""
    if asked is None:
        return {}
    if not isinstance(asked, Mapping):
        raise Invalid(f"options of {action} are names and values, not {asked!r}")
    known = OPTIONS.get(action, frozenset())
    if unknown := sorted(set(asked) - known):
        raise Invalid(f"{action} has no option {unknown[0]!r}: it has {', '.join(sorted(known))}")
    return dict(asked)


def span(name: str, seconds: Json) -> timedelta:
    return min(timedelta(seconds=min(positive(name, seconds), 1e10)), LONGEST_AGE)


def positive(name: str, value: Json) -> float:
    try:
        number = float(value) if isinstance(value, (int, float, str)) and not isinstance(value, bool) else -1.0
    except ValueError:
        number = -1.0
    if not 0 < number < 1e15:
        raise Invalid(f"{name} is {value!r}: a positive number is needed")
    return number
