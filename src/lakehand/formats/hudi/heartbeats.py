# SPDX-License-Identifier: Apache-2.0
"""The heartbeats that running plans leave in a table: Hudi refuses a plan while one is fresh, so we do not even try."""

from datetime import datetime, timedelta

from lakehand.formats.hudi.snapshot import HudiSnapshot
from lakehand.spi import Instant, TableConfig

FOLDER = ".hoodie/.heartbeat"
INTERVAL = "hoodie.client.heartbeat.interval_in_ms"
MISSES = "hoodie.client.heartbeat.tolerable.misses"
HUDIS_INTERVAL, HUDIS_MISSES = 60_000, 2


def tolerance(config: TableConfig) -> timedelta:
    """How old a heartbeat may be before Hudi takes its runner for dead: two minutes, unless the table differs."""
    return timedelta(milliseconds=config.number(INTERVAL, HUDIS_INTERVAL)) * config.number(MISSES, HUDIS_MISSES)


def heartbeat_options(config: TableConfig) -> dict[str, str]:
    """What the table says about heartbeats; it must be the same for all who run its plans."""
    return {key: str(config.number(key, 0)) for key in (INTERVAL, MISSES) if key in config.settings}


def fresh_for(snapshot: HudiSnapshot, instant: Instant, now: datetime, config: TableConfig) -> timedelta | None:
    """How much longer a plan's heartbeat counts as fresh; None when there is none or it is old."""
    try:
        beats = snapshot.storage.entries(f"{snapshot.root}/{FOLDER}")
    except FileNotFoundError:
        return None
    seen = max((entry.modified for entry in beats if entry.name == instant), default=None)
    left = tolerance(config) - (now - seen) if seen else timedelta()
    return left if left > timedelta() else None
