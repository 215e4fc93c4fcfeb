# SPDX-License-Identifier: Apache-2.0
"""The settings of Delta tables: keys, defaults, and floors that neither a table nor a request can lower.

Each may be set for all tables (properties of the plugin) or for one (its properties), except floors: plugin only.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from lakehand.formats.delta import properties
from lakehand.formats.delta.snapshot import RETENTION_FLOOR, SMALL_SHARE, TARGET, DeltaSnapshot
from lakehand.spi import Action, Invalid, Json, TableConfig

OPTIMIZE = Action.register("optimize")
Z_ORDER = Action.register("z-order")
VACUUM = Action.register("vacuum")
PURGE = Action.register("purge")
ACTIONS = frozenset({OPTIMIZE, Z_ORDER, VACUUM, PURGE})

GB = 1024**3
HOUR = timedelta(hours=1)
LONGEST_HOURS = 876_000.0  # a hundred years
FLOOR = "delta.vacuum.floor-hours"
FEATURES = "delta.table-features"
LITE, FULL, AUTO = "lite", "full", "auto"

# What a person may ask for, by action; everything else is refused.
OPTIONS: Mapping[Action, frozenset[str]] = {
    OPTIMIZE: frozenset({"target_file_bytes"}),
    Z_ORDER: frozenset({"target_file_bytes", "columns"}),
    VACUUM: frozenset({"retain_hours", "mode"}),
    PURGE: frozenset({"target_file_bytes"}),
}
_COLUMN = re.compile(r"[^\x00-\x1f\x7f`,]{1,255}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Floors:
    """What the operator of the service decides, for all tables."""

    retention: timedelta = RETENTION_FLOOR
    features: frozenset[str] = frozenset()  # that the engine's Delta has beyond those that we know


def floors_of(plugin: Mapping[str, str]) -> Floors:
    """The hard minimum is in the code: not even the operator's settings lower it."""
    try:
        asked = hours(float(plugin.get(FLOOR, 0)), FLOOR)
    except ValueError as error:
        raise Invalid(f"{FLOOR} is a number of hours: {error}") from error
    listed = frozenset(word.strip() for word in plugin.get(FEATURES, "").split(",") if word.strip())
    return Floors(retention=max(asked, RETENTION_FLOOR), features=listed)


def switched_off(config: TableConfig, action: Action) -> str | None:
    key = f"delta.{action}.enabled"
    return None if config.flag(key, True) else f"{key} is false (from {config.origin(key)})"


def target_bytes(config: TableConfig, snapshot: DeltaSnapshot, action: Action, asked: Json = None) -> int:
    """A request's, then our setting's, then the table's own idea of how large a file should be."""
    default = properties.target_size(snapshot.configuration) or TARGET
    wanted = number_of(asked, "target_file_bytes") if asked is not None else None
    target = wanted if wanted is not None else config.number(f"delta.{action}.target-file-bytes", default)
    if target < 1:
        raise Invalid(f"a file cannot have {target} bytes: delta.{action}.target-file-bytes")
    return target


def small_bytes(config: TableConfig, target: int) -> int:
    """A file that is smaller is worth merging with others."""
    share = config.ratio("delta.optimize.small-file-share", SMALL_SHARE)
    return int(target * min(max(share, 0.0), 1.0))


def z_order_columns(config: TableConfig, asked: Json = None) -> tuple[str, ...]:
    text = asked if asked is not None else config.text("delta.z-order.columns")
    if not isinstance(text, str):
        raise Invalid(f"columns to order by are names with commas between them, not {text!r}")
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in names:
        if not _COLUMN.fullmatch(name):
            raise Invalid(f"{name!r} is no column that can be ordered by")
    return names


def retained(config: TableConfig, snapshot: DeltaSnapshot, floors: Floors, asked: Json = None) -> timedelta:
    """The longest of all: the floor, the table's property, our setting, the request."""
    wanted = [
        floors.retention,
        properties.retention(snapshot.configuration),
        hours(config.ratio("delta.vacuum.retain-hours", 0), "delta.vacuum.retain-hours"),
    ]
    if asked is not None:
        wanted.append(hours(number_of(asked, "retain_hours"), "retain_hours"))
    return max(wanted)


def hours(count: float, name: str) -> timedelta:
    if math.isnan(count):
        raise Invalid(f"{name} is no number of hours")
    return HOUR * min(max(count, 0.0), LONGEST_HOURS)


def vacuum_mode(config: TableConfig, asked: Json = None) -> str:
    mode = str(asked if asked is not None else config.text("delta.vacuum.mode", AUTO)).lower()
    if mode not in (LITE, FULL, AUTO):
        raise Invalid(f"{mode!r} is no way to vacuum: {LITE}, {FULL} or {AUTO}")
    return mode


def options_of(action: Action, parameters: Mapping[str, Json]) -> Mapping[str, Json]:
    """What the person asked for, with nothing that nobody may ask for."""
    asked = parameters.get("options") or {}
    if not isinstance(asked, Mapping):
        raise Invalid(f"options are names with values, not {asked!r}")
    options = {key.replace("-", "_"): value for key, value in asked.items()}
    if unknown := sorted(options.keys() - OPTIONS[action]):
        raise Invalid(f"{action} has no option {', '.join(unknown)}; it has {', '.join(sorted(OPTIONS[action]))}")
    return options


def number_of(value: Json, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, str)) or not re.fullmatch(r"\d{1,15}", str(value)):
        raise Invalid(f"{name} is a whole number, not {value!r}")
    return int(value)
