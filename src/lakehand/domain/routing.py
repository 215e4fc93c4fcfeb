# SPDX-License-Identifier: Apache-2.0
"""Routing: small work goes to the warm driver, large work to an application of its own. Pure: facts in, choice out."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from lakehand.domain.errors import Invalid
from lakehand.domain.processes import Json, TableProcess, reported_number
from lakehand.domain.texts import amount

ENGINE_PROPERTY = "engine"  # of a table, or of a plugin for all tables of its format
LARGE_PROPERTY = "large-from"  # likewise: from how many bytes on an operation gets an application of its own
AUTO = "auto"
WARM, OWN_APPLICATION = "spark", "spark-submit"
LARGE = "10GB"
ESTIMATE = "estimated_bytes"  # in the parameters of a process: what it reads, as far as the table's metadata says
CHOICE = "engine_choice"  # in the parameters of a process: why it has its engine
PARALLELISM = "parallelism"  # in the parameters of a process: how many cores its application may have
BYTES_PER_CORE = 512 * 1024**2
MOST_CORES = 64

_SIZE = re.compile(r"(\d{1,15}) ?([KMGT]?)B?", re.IGNORECASE)
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingPolicy:
    """What the table, its plugin and the defaults say."""

    engine: str = AUTO
    large_from: int = 10 * 1024**3


def read_policy(engine: str, large_from: str, origin: str) -> RoutingPolicy:
    found = _SIZE.fullmatch(large_from.strip())
    if found is None:
        raise Invalid(f"{LARGE_PROPERTY} is {large_from!r} (from {origin}): use a number of bytes such as {LARGE}")
    size = int(found[1]) * 1024 ** _POWERS[found[2].upper()]
    return RoutingPolicy(engine=engine.strip() or AUTO, large_from=size)


def route(
    process: TableProcess, policy: RoutingPolicy, engines: Collection[str], *, wanted: str | None = None,
    was_routed: bool = False,
) -> TableProcess:  # fmt: skip
    """The process with its engine, and why. A factory that has chosen an engine itself knows better.

    ``wanted``: the request asked for this engine. Where the factory has chosen another one, the work cannot run there.
    ``was_routed``: an earlier attempt has its engine from here, and not from its factory.
    """
    if process.engine not in (WARM, wanted) and not was_routed:
        return process
    if wanted is not None:
        engine, why = wanted, f"the request asked for {wanted}"
    else:
        engine, why = choose_engine(reported_number(process.parameters.get(ESTIMATE)), policy, engines)
    chosen: dict[str, Json] = {CHOICE: why} if why else {}
    sized = fitting(process.parameters) if engine == OWN_APPLICATION else {}
    return replace(process, engine=engine, parameters={**process.parameters, **sized, **chosen})


def choose_engine(size: int, policy: RoutingPolicy, engines: Collection[str]) -> tuple[str, str]:
    """The engine, and the reason; no reason where there is nothing to choose from."""
    if policy.engine != AUTO:
        return policy.engine, f"the table's engine is {policy.engine}"
    if not size:
        return WARM, "its size is not known before it runs" if OWN_APPLICATION in engines else ""
    if size < policy.large_from:
        compared = f"{amount(size)} to read, less than {amount(policy.large_from)}"
        return WARM, compared if OWN_APPLICATION in engines else ""
    compared = f"{amount(size)} to read, large from {amount(policy.large_from)}"
    if OWN_APPLICATION in engines:
        return OWN_APPLICATION, compared
    return WARM, f"{compared}, and the engine {OWN_APPLICATION} is off"


def fitting(parameters: Mapping[str, Json]) -> dict[str, Json]:
    """As many cores as the work has use for, unless a request says how many."""
    size = reported_number(parameters.get(ESTIMATE))
    if not size or parameters.get(PARALLELISM):
        return {}
    return {PARALLELISM: min(max(-(-size // BYTES_PER_CORE), 1), MOST_CORES)}


def choice_of(process: TableProcess) -> str:
    """Why the process has its engine; empty before it was routed."""
    return str(process.parameters.get(CHOICE) or "")
