# SPDX-License-Identifier: Apache-2.0
"""The settings of Hudi tables: keys, defaults, and floors that a table's properties cannot lower.

Each may be set for all tables (properties of the plugin) or for one (its properties), except floors: plugin only.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from lakehand.formats.hudi.mirror import KNOWN_VERSIONS
from lakehand.formats.hudi.snapshot import CLEAN, CLUSTERING, COMPACTION
from lakehand.spi import Action, Invalid, Json, TableConfig

# With scheduling "service": how many writes make a plan worth while.
THRESHOLDS: Mapping[Action, tuple[str, int]] = {
    COMPACTION: ("hudi.compaction.delta-commits", 5),
    CLUSTERING: ("hudi.clustering.commits", 4),
    CLEAN: ("hudi.clean.commits", 10),
}
RETAIN = "hudi.clean.retain-commits"
RETAIN_DEFAULT = 10
RETAIN_FLOOR = "hudi.clean.retain-commits-floor"
RETAIN_FLOOR_DEFAULT = 2
ORDER_COLUMNS = "hudi.clustering.order-columns"
ORDER_STRATEGY = "hudi.clustering.order-strategy"
ORDER_STRATEGIES = frozenset({"linear", "z-order", "hilbert"})
VERSIONS = "hudi.table-versions"  # the table versions that the engine's Hudi may write

# RFC-43's switches, as writers know them.
ALL_SERVICES = "hoodie.table.services.enable"

# Sizes and counts that properties and requests may set: nothing that loads a class or a file, or deletes sooner.
TUNABLE = frozenset(
    {
        "hoodie.cleaner.parallelism",
        "hoodie.clustering.plan.strategy.max.bytes.per.group",
        "hoodie.clustering.plan.strategy.max.num.groups",
        "hoodie.clustering.plan.strategy.small.file.limit",
        "hoodie.clustering.plan.strategy.target.file.max.bytes",
        "hoodie.compaction.lazy.block.read",
        "hoodie.compaction.target.io",
        "hoodie.memory.compaction.fraction",
        "hoodie.memory.merge.fraction",
        "hoodie.parquet.block.size",
        "hoodie.parquet.compression.codec",
        "hoodie.parquet.compression.ratio",
        "hoodie.parquet.max.file.size",
        "hoodie.parquet.page.size",
        "hoodie.parquet.small.file.limit",
    }
)
_COLUMNS = re.compile(r"\w[\w.]*(,\w[\w.]*)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Floors:
    """What the operator of the service decides, for all tables."""

    retain_commits: int = RETAIN_FLOOR_DEFAULT
    versions: frozenset[int] = KNOWN_VERSIONS


def floors_of(properties: Mapping[str, str]) -> Floors:
    try:
        floor = int(properties.get(RETAIN_FLOOR, RETAIN_FLOOR_DEFAULT))
        listed = [int(word) for word in properties.get(VERSIONS, "").split(",") if word.strip()]
    except ValueError as error:
        raise Invalid(f"{RETAIN_FLOOR} and {VERSIONS} are numbers: {error}") from error
    return Floors(retain_commits=max(floor, 1), versions=frozenset(listed) or KNOWN_VERSIONS)


def threshold(config: TableConfig, action: Action) -> int:
    return max(config.number(*THRESHOLDS[action]), 1)


def retained_commits(config: TableConfig, floors: Floors, asked: Json = None) -> int:
    """A request may keep more than the table does, never less."""
    kept = max(config.number(RETAIN, RETAIN_DEFAULT), floors.retain_commits)
    return max(kept, int(asked)) if isinstance(asked, (int, str)) and str(asked).isdigit() else kept


def switched_off(config: TableConfig, action: Action) -> str | None:
    for key in (ALL_SERVICES, f"hoodie.table.service.{action}.enable"):
        if not config.flag(key, True):
            return f"{key} is false (from {config.origin(key)})"
    return None


def order(config: TableConfig, asked: Mapping[str, Json]) -> dict[str, Json]:
    """How a clustering that we plan sorts its rows; empty: as they come."""
    columns = str(asked.get("order_columns") or config.text(ORDER_COLUMNS)).replace(" ", "")
    strategy = str(asked.get("order_strategy") or config.text(ORDER_STRATEGY, "linear"))
    if not columns:
        return {}
    if not _COLUMNS.fullmatch(columns) or strategy not in ORDER_STRATEGIES:
        raise Invalid(
            f"cannot order by {columns!r} with {strategy!r}: column names, and one of {sorted(ORDER_STRATEGIES)}"
        )
    return {"order_columns": columns, "order_strategy": strategy}


def tuned(values: Mapping[str, Json]) -> dict[str, str]:
    return {key: str(value) for key, value in values.items() if key in TUNABLE}
