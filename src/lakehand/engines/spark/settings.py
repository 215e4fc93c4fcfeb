# SPDX-License-Identifier: Apache-2.0
"""The settings of the spark engine, from its properties in lakehand.toml; unknown ones are refused by name."""

import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from ipaddress import ip_address

from lakehand.domain.errors import Invalid
from lakehand.domain.operations import may_link

CONF = "conf."
APPLICATION = "{application}"  # in history-url
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
    driver_host: str = ""  # where executors reach the driver; empty: as Spark finds it, loopback for a local cluster
    bind_address: str = ""  # where the driver listens; empty: as driver_host
    executor_python: str = ""  # the Python of executors; empty: that of the driver
    history_url: str = (
        ""  # the page of an application, with {application} for its id; empty: Spark's own UI, if it is on
    )
    conf: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_local(self) -> bool:
        """Tasks run in the driver's JVM."""
        return is_local(self.master)

    @property
    def is_on_loopback(self) -> bool:
        """The master is on this machine and nowhere else, so the driver is not offered to anybody else, too."""
        return self.is_local or all(is_loopback(host) for host in master_hosts(self.master))


KEYS = frozenset(name.replace("_", "-") for name in SparkSettings.__dataclass_fields__ if name != "conf")


def split(properties: Mapping[str, str], keys: Collection[str], engine: str) -> tuple[dict[str, str], dict[str, str]]:
    """The engine's own properties, and those for Spark; any other is refused by name."""
    conf = {key.removeprefix(CONF): value for key, value in properties.items() if key.startswith(CONF)}
    plain = {key: value.strip() for key, value in properties.items() if not key.startswith(CONF)}
    if unknown := sorted(set(plain) - set(keys)) + sorted(key for key in conf if not key.startswith("spark.")):
        known = ", ".join(sorted(keys))
        raise Invalid(f"the {engine} engine has no property {unknown[0]!r}; it has {known}, conf.spark.*")
    return plain, conf


def read_settings(properties: Mapping[str, str]) -> SparkSettings:
    plain, conf = split(properties, KEYS, "spark")
    standard = SparkSettings()
    master = plain.get("master") or standard.master
    memory = plain.get("driver-memory") or standard.driver_memory
    return SparkSettings(
        master=master,
        threads=number(plain, "threads", default_threads(master), least=1),
        driver_memory=memory,
        max_rss_mb=number(plain, "max-rss-mb", 2 * megabytes(memory) + 1024),
        conf=conf,
        driver_host=plain.get("driver-host", ""),
        bind_address=plain.get("bind-address", ""),
        executor_python=plain.get("executor-python", ""),
        history_url=history_url(plain),
        **{
            name: duration(plain, name.replace("_", "-"), getattr(standard, name))
            for name in ("idle_timeout", "max_age", "lease_grace", "start_timeout", "hang_timeout", "keep_logs")
        },
    )


def history_url(properties: Mapping[str, str]) -> str:
    """An address of the web in which the id of an application can be filled."""
    text = properties.get("history-url", "")
    if text and not (APPLICATION in text and may_link(text)):
        raise Invalid(
            "history-url of the engine is an http or https address without a password, with {application} where the"
            " id goes: http://history.example.org:18080/history/{application}"
        )
    return text


def is_local(master: str) -> bool:
    return re.fullmatch(r"local(\[.*\])?", master) is not None


def master_hosts(master: str) -> list[str]:
    """The hosts of ``spark://one:7077,two:7077``; an empty one where the master names none."""
    if not master.startswith("spark://"):
        return [""]
    return [address.rpartition(":")[0].strip("[]") for address in master.removeprefix("spark://").split(",")]


def is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def default_threads(master: str) -> int:
    if not is_local(master):
        return CLUSTER_THREADS
    named = re.fullmatch(r"local\[(\d+)(,\d+)?\]", master)
    cores = int(named[1]) if named else (os.cpu_count() or 1)
    return cores + MORE_THREADS_THAN_CORES


def number(properties: Mapping[str, str], key: str, default: int, least: int = 0) -> int:
    text = properties.get(key, str(default))
    if not text.isdecimal() or int(text) < least:
        raise Invalid(f"{key} of the engine is {text!r}: a whole number from {least} on is needed")
    return int(text)


def duration(properties: Mapping[str, str], key: str, default: timedelta) -> timedelta:
    """Seconds, or a number with s, m, h or d."""
    if key not in properties:
        return default
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhd]?)", properties[key])
    if match is None:
        raise Invalid(f"{key} of the engine is {properties[key]!r}: a number of seconds, or 90s, 10m, 2h, 1d")
    return timedelta(seconds=float(match[1]) * UNITS[match[2]])


def megabytes(memory: str, key: str = "driver-memory") -> int:
    match = re.fullmatch(r"(\d+)([mg])", memory.lower())
    if match is None:
        raise Invalid(f"{key} of the engine is {memory!r}: a size such as 2g or 900m is needed")
    return int(match[1]) * MEMORY_UNITS[match[2]]
