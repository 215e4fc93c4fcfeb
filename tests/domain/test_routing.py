# SPDX-License-Identifier: Apache-2.0
"""Routing: by size, by what the table says, and by what engines there are."""

import pytest

from lakehand.domain.errors import Invalid
from lakehand.domain.processes import Json, TableProcess
from lakehand.domain.routing import CHOICE, ESTIMATE, RoutingPolicy, read_policy, route
from tests.domain.words import COMPACTION

GB = 1024**3
BOTH = ("spark", "spark-submit")


def process(size: int | None, **parameters: Json) -> TableProcess:
    known: dict[str, Json] = {} if size is None else {ESTIMATE: size}
    return TableProcess(action=COMPACTION, job="hudi.compaction", parameters={**known, **parameters})


@pytest.mark.parametrize(("size", "engine", "why"), [
    (None, "spark", "its size is not known before it runs"),
    (10 * GB - 1, "spark", "10.0 GB to read, less than 10.0 GB"),
    (10 * GB, "spark-submit", "10.0 GB to read, large from 10.0 GB"),
])  # fmt: skip
def test_large_work_gets_an_application_of_its_own(size: int | None, engine: str, why: str) -> None:
    routed = route(process(size), RoutingPolicy(), BOTH)

    assert (routed.engine, routed.parameters[CHOICE]) == (engine, why)


def test_without_a_second_engine_only_large_work_says_why_it_is_in_the_warm_driver() -> None:
    small, large = (route(process(size), RoutingPolicy(), ["spark"]) for size in (GB, 20 * GB))

    assert (small.engine, large.engine) == ("spark", "spark")
    assert CHOICE not in small.parameters
    assert large.parameters[CHOICE] == "20.0 GB to read, large from 10.0 GB, and the engine spark-submit is off"


@pytest.mark.parametrize("engine", ["spark", "spark-submit"])
def test_a_table_can_name_its_engine(engine: str) -> None:
    policy = read_policy(engine, "10GB", "table")

    assert {route(process(size), policy, BOTH).engine for size in (None, 1, 100 * GB)} == {engine}


@pytest.mark.parametrize("engine", ["flink", "spark-submit"])
def test_an_engine_that_a_factory_has_chosen_stays(engine: str) -> None:
    chosen = TableProcess(action=COMPACTION, engine=engine, parameters={ESTIMATE: 1})

    assert route(chosen, RoutingPolicy(engine="spark"), BOTH) is chosen


@pytest.mark.parametrize(("size", "cores"), [(10 * GB, 20), (10 * GB + 1, 21), (1000 * GB, 64)])
def test_an_application_gets_the_cores_that_the_work_has_use_for(size: int, cores: int) -> None:
    assert route(process(size), RoutingPolicy(), BOTH).parameters["parallelism"] == cores


def test_a_request_says_how_many_cores_an_application_gets() -> None:
    assert route(process(20 * GB, parallelism="7"), RoutingPolicy(), BOTH).parameters["parallelism"] == "7"


def test_an_attempt_is_routed_anew() -> None:
    first = route(process(20 * GB), RoutingPolicy(), BOTH)

    assert first.engine == "spark-submit"
    assert route(first, RoutingPolicy(large_from=50 * GB), BOTH, was_routed=True).engine == "spark"


@pytest.mark.parametrize(("text", "size"), [("0", 0), ("512", 512), ("64MB", 64 * 1024**2), ("2 gb", 2 * GB)])
def test_a_limit_is_a_number_of_bytes(text: str, size: int) -> None:
    assert read_policy("auto", text, "table").large_from == size


@pytest.mark.parametrize("text", ["", "-1", "many", "1.5GB", "9" * 20])
def test_a_limit_that_is_no_number_of_bytes_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match=r"large-from is .* \(from table\)"):
        read_policy("auto", text, "table")
