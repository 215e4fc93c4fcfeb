# SPDX-License-Identifier: Apache-2.0
"""The settings of the spark-submit engine, and what an operation gets within their bounds.

The settings come from the engine's properties; unknown ones are refused by name. An operation asks as in RFC-43, by
``resource``, ``parallelism`` and its queue, and Spark has other names for these.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from lakehand.domain.errors import Invalid
from lakehand.engines.spark.settings import SparkSettings, duration, history_url, megabytes, number, split

UNITS = {"k": 1 / 1024, "": 1, "m": 1, "g": 1024, "t": 1024 * 1024}  # as Spark reads memory: megabytes if unsaid
LEAST_MEMORY = 512  # megabytes: Spark does not start with less
RESOURCE = re.compile(r"(?:[a-z]+:)?(\d+)([kmgt]?)[:,](\d+)([kmgt]?)", re.IGNORECASE)
# Those that mean the same for both engines; without one of its own, the engine takes that of the warm driver.
SHARED = (
    "master", "driver-host", "bind-address", "executor-python", "lease-grace", "start-timeout", "keep-logs",
    "history-url",
)  # fmt: skip
SIZES = {"driver-memory": "1g", "executor-memory": "1g", "max-driver-memory": "8g", "max-executor-memory": "32g"}
NUMBERS = {"max-applications": 2, "parallelism": 0, "max-parallelism": 0}
MODES = ("client", "cluster")
MODE_KEYS = ("deploy-mode", "shared-folder", "driver-python")
KEYS = frozenset({*SHARED, *SIZES, *NUMBERS, *MODE_KEYS, "hang-timeout", "wait-timeout"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """Memory in megabytes."""

    driver_memory: int
    executor_memory: int
    parallelism: int = 0  # cores on a standalone cluster, executors on YARN; zero: what the cluster gives


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What applications get when nobody asks, and the most that anybody gets."""

    standard: Resources
    most: Resources  # a parallelism of zero: no bound

    def resources_for(self, asked: Mapping[str, Any]) -> Resources:
        """``asked``: the parameters of the work."""
        most = self.most
        driver, executor = read_resource(str(asked.get("resource") or ""), self.standard)
        parallelism = read_parallelism(str(asked.get("parallelism") or ""), self.standard)
        return Resources(
            driver_memory=min(max(driver, LEAST_MEMORY), most.driver_memory),
            executor_memory=min(max(executor, LEAST_MEMORY), most.executor_memory),
            parallelism=min(parallelism or most.parallelism, most.parallelism or parallelism),
        )


def read_resource(text: str, standard: Resources) -> tuple[int, int]:
    """Driver and executor memory from ``4g:4g``, or ``spark:4g,4g`` as Hudi's client says it."""
    if not text:
        return standard.driver_memory, standard.executor_memory
    match = RESOURCE.fullmatch(text)
    if match is None:
        raise Invalid(f"{text[:40]!a} is not a resource setting: write 4g:4g (driver:executor) or spark:4g,4g")
    return in_megabytes(match[1], match[2]), in_megabytes(match[3], match[4])


def in_megabytes(number: str, unit: str) -> int:
    return int(int(number) * UNITS[unit.lower()])


def read_parallelism(text: str, standard: Resources) -> int:
    return int(text) if text.isdecimal() and int(text) else standard.parallelism


def resource_properties(resources: Resources, *, master: str, queue: str, handle: str) -> dict[str, str]:
    """Of a local master only the driver's memory counts: there are no executors."""
    properties = {
        "spark.driver.memory": f"{resources.driver_memory}m",
        "spark.executor.memory": f"{resources.executor_memory}m",
    }
    if master == "yarn":
        properties |= {"spark.yarn.queue": queue, "spark.yarn.tags": f"lakehand,{handle}"}
    if resources.parallelism:
        key = "spark.executor.instances" if master == "yarn" else "spark.cores.max"
        properties[key] = str(resources.parallelism)
    return properties


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitSettings:
    """``spark`` has what drivers of both engines are started with."""

    spark: SparkSettings
    bounds: Bounds
    applications: int  # at once; in client mode each is a JVM on this machine
    shared_folder: Path | None = None  # where applications have their folders in cluster mode; None: client mode
    driver_python: str = ""  # in cluster mode; empty: the path of this Python


def read_settings(properties: Mapping[str, str]) -> SubmitSettings:
    plain, conf = split(properties, KEYS, "spark-submit")
    usual = {**SIZES, "executor-memory": conf.get("spark.executor.memory") or SIZES["executor-memory"]}
    sizes = {key: megabytes(plain.get(key) or size, key) for key, size in usual.items()}
    numbers = {key: number(plain, key, default, least=key == "max-applications") for key, default in NUMBERS.items()}
    standard = SparkSettings()
    spark = SparkSettings(
        master=plain.get("master") or standard.master,
        threads=1,
        idle_timeout=duration(plain, "wait-timeout", timedelta(minutes=5)),
        max_age=timedelta(),
        lease_grace=duration(plain, "lease-grace", standard.lease_grace),
        start_timeout=duration(plain, "start-timeout", standard.start_timeout),
        hang_timeout=duration(plain, "hang-timeout", standard.hang_timeout),
        keep_logs=duration(plain, "keep-logs", standard.keep_logs),
        driver_host=plain.get("driver-host", ""),
        bind_address=plain.get("bind-address", ""),
        executor_python=plain.get("executor-python", ""),
        history_url=history_url(plain),
        conf=conf,
    )
    return SubmitSettings(
        spark=spark,
        bounds=bounds_of(sizes, numbers),
        applications=numbers["max-applications"],
        shared_folder=shared_folder_of(plain, spark.master),
        driver_python=plain.get("driver-python", ""),
    )


def shared_folder_of(plain: Mapping[str, str], master: str) -> Path | None:
    """None in client mode. In cluster mode only files connect service and driver."""
    mode, folder = plain.get("deploy-mode") or MODES[0], plain.get("shared-folder", "")
    if mode not in MODES:
        raise Invalid(f"deploy-mode of the spark-submit engine is {mode!r}: it is client or cluster")
    if mode == MODES[0]:
        return None
    if master != "yarn":
        raise Invalid(f"deploy-mode cluster needs the master yarn, and it is {master!r}")
    if not folder.startswith("/"):
        raise Invalid("deploy-mode cluster needs shared-folder: a path on storage that the NodeManagers have, too")
    return Path(folder)


def bounds_of(sizes: Mapping[str, int], numbers: Mapping[str, int]) -> Bounds:
    return Bounds(
        standard=Resources(
            driver_memory=sizes["driver-memory"],
            executor_memory=sizes["executor-memory"],
            parallelism=numbers["parallelism"],
        ),
        most=Resources(
            driver_memory=sizes["max-driver-memory"],
            executor_memory=sizes["max-executor-memory"],
            parallelism=numbers["max-parallelism"],
        ),
    )
