# SPDX-License-Identifier: Apache-2.0
"""RFC-43's ``resource``, ``parallelism`` and queue of an operation as Spark names them, within an operator's bounds."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lakehand.domain.errors import Invalid

UNITS = {"k": 1 / 1024, "": 1, "m": 1, "g": 1024, "t": 1024 * 1024}  # as Spark reads memory: megabytes if unsaid
LEAST = 512  # megabytes: Spark does not start with less
RESOURCE = re.compile(r"(?:[a-z]+:)?(\d+)([kmgt]?)[:,](\d+)([kmgt]?)", re.IGNORECASE)


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
            driver_memory=min(max(driver, LEAST), most.driver_memory),
            executor_memory=min(max(executor, LEAST), most.executor_memory),
            parallelism=min(parallelism or most.parallelism, most.parallelism or parallelism),
        )


def read_resource(text: str, standard: Resources) -> tuple[int, int]:
    """Driver and executor memory from ``4g:4g``, or ``spark:4g,4g`` as Hudi's client says it."""
    if not text:
        return standard.driver_memory, standard.executor_memory
    match = RESOURCE.fullmatch(text)
    if match is None:
        raise Invalid(f"{text[:40]!a} is not a resource setting: write 4g:4g (driver:executor) or spark:4g,4g")
    return megabytes(match[1], match[2]), megabytes(match[3], match[4])


def megabytes(number: str, unit: str) -> int:
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
