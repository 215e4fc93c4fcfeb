# SPDX-License-Identifier: Apache-2.0
"""The search for keys that are twice is made only on request, and says how many there are and where."""

from pathlib import Path
from typing import Any

import pytest

from lakehand.formats.hudi import HudiProcessFactory
from lakehand.formats.hudi.find_duplicates import FIND_DUPLICATES
from lakehand.spi import Finding, Skip, TableProcess, Verdict
from lakehand.spi.pauses import CHANGED
from tests.formats.hudi.runtime import FILE_LOCK, MemoryRuntime, copied, operation
from tests.kit.sentences import Sentences


@pytest.fixture
def runtime(tmp_path: Path) -> MemoryRuntime:
    return MemoryRuntime(copied("orders_v9", tmp_path), properties=FILE_LOCK)


def admitted(runtime: MemoryRuntime) -> TableProcess:
    asked = TableProcess(action=FIND_DUPLICATES, job="", parameters={"mode": "plan-and-execute"}, reason="requested")
    process = HudiProcessFactory().admit(runtime, operation(asked))
    assert isinstance(process, TableProcess), process
    return process


def verdict(runtime: MemoryRuntime, **result: Any) -> Verdict:
    return HudiProcessFactory().verify(runtime, admitted(runtime), result)


def test_it_is_never_decided_upon(runtime: MemoryRuntime, sentences: Sentences) -> None:
    decision = HudiProcessFactory().trigger(runtime, FIND_DUPLICATES)

    assert isinstance(decision, Skip)
    sentences.check("only on request", decision.reason, table=1)


def test_a_request_is_admitted_as_a_job_that_reads(runtime: MemoryRuntime) -> None:
    assert admitted(runtime).job == "hudi.find_duplicates"


def test_what_was_found_is_in_the_verdict(runtime: MemoryRuntime, sentences: Sentences) -> None:
    none = verdict(runtime, searched=10, keys=0, rows=0, partitions={}, examples=[])
    partitions = {"day=1": 4, "day=2": 1, "day=3": 1, "day=4": 1}
    some = verdict(runtime, searched=10, keys=7, rows=15, partitions=partitions, examples=["a", "b", "c", "d"])
    flat = verdict(runtime, searched=10, keys=1, rows=2, partitions={"": 1}, examples=["a"])

    assert {one.finding for one in (none, some, flat)} == {Finding.DONE}
    assert (some.numbers["keys"], some.numbers["rows"], some.numbers[CHANGED]) == (7, 15, False)
    sentences.check("no duplicates", none.reason, searched=10)
    sentences.check("duplicates", some.reason, keys=7, rows=15)
    sentences.check("duplicates without partitions", flat.reason)
    assert verdict(runtime).finding is Finding.NOT_DONE
