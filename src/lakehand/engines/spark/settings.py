# SPDX-License-Identifier: Apache-2.0
"""The settings of the spark engine, from its properties in lakehand.toml; unknown ones are refused by name."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from lakehand.domain.errors import Invalid

CONF = "conf."
UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
MEMORY_UNITS = {"m": 1, "g": 1024}
CLUSTER_THREADS = 8
MORE_THREADS_THAN_CORES = 2  # small jobs mostly wait for storage


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSettings:
    master: str = "local[*]"
    threads: int = 4  # jobs at once
    driver_memory: str = "2g"
    idle_timeout: timedelta = timedelta(minutes=10)  # zero: never
    max_age: timedelta = timedelta(days=1)  # zero: no limit
    max_rss_mb: int = 0  # zero: no limit
    lease_grace: timedelta = timedelta(seconds=5)  # for a job to stop after its lease, before the driver exits
    start_timeout: timedelta = timedelta(minutes=5)
    hang_timeout: timedelta = timedelta(minutes=2)  # without a heartbeat
    keep_logs: timedelta = timedelta(days=14)
    conf: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_local(self) -> bool:
        """Tasks run in the driver's JVM."""
        return is_local(self.master)


KEYS = frozenset(name.replace("_", "-") for name in SparkSettings.__dataclass_fields__ if name != "conf")


def read_settings(properties: Mapping[str, str]) -> SparkSettings:
    conf = {key.removeprefix(CONF): value for key, value in properties.items() if key.startswith(CONF)}
    plain = {key: value.strip() for key, value in properties.items() if not key.startswith(CONF)}
    if unknown := sorted(set(plain) - KEYS) + sorted(key for key in conf if not key.startswith("spark.")):
        raise Invalid(
            f"the spark engine has no property {unknown[0]!r}; it has {', '.join(sorted(KEYS))}, conf.spark.*"
        )
    standard = SparkSettings()
    master = plain.get("master") or standard.master
    memory = plain.get("driver-memory") or standard.driver_memory
    return SparkSettings(
        master=master,
        threads=number(plain, "threads", default_threads(master), least=1),
        driver_memory=memory,
        max_rss_mb=number(plain, "max-rss-mb", 2 * megabytes(memory) + 1024),
        conf=conf,
        **{
            name: duration(plain, name.replace("_", "-"), getattr(standard, name))
            for name in ("idle_timeout", "max_age", "lease_grace", "start_timeout", "hang_timeout", "keep_logs")
        },
    )


def is_local(master: str) -> bool:
    return re.fullmatch(r"local(\[.*\])?", master) is not None


def default_threads(master: str) -> int:
    if not is_local(master):
        return CLUSTER_THREADS
    named = re.fullmatch(r"local\[(\d+)(,\d+)?\]", master)
    cores = int(named[1]) if named else (os.cpu_count() or 1)
    return cores + MORE_THREADS_THAN_CORES


def number(properties: Mapping[str, str], key: str, default: int, least: int = 0) -> int:
    text = properties.get(key, str(default))
    if not text.isdecimal() or int(text) < least:
        raise Invalid(f"{key} of the spark engine is {text!r}: a whole number from {least} on is needed")
    return int(text)


def duration(properties: Mapping[str, str], key: str, default: timedelta) -> timedelta:
    """Seconds, or a number with s, m, h or d."""
    if key not in properties:
        return default
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhd]?)", properties[key])
    if match is None:
        raise Invalid(f"{key} of the spark engine is {properties[key]!r}: a number of seconds, or 90s, 10m, 2h, 1d")
    return timedelta(seconds=float(match[1]) * UNITS[match[2]])


def megabytes(memory: str) -> int:
    match = re.fullmatch(r"(\d+)([mg])", memory.lower())
    if match is None:
        raise Invalid(f"driver-memory of the spark engine is {memory!r}: a size such as 2g or 900m is needed")
    return int(match[1]) * MEMORY_UNITS[match[2]]
