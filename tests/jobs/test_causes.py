# SPDX-License-Identifier: Apache-2.0
"""Which of many causes is named."""

from types import SimpleNamespace
from typing import Any

import pytest

from lakehand.jobs.causes import CHAIN_LIMIT, Cause, causes_of, java_causes, main_cause


def test_the_deepest_cause_of_a_library_is_the_main_one() -> None:
    chain = [
        Cause("org.apache.spark.SparkException", "Job aborted"),
        Cause("org.apache.hudi.exception.HoodieException", "outer"),
        Cause("org.apache.hudi.exception.HoodieLockException", "held"),
        Cause("java.io.IOException", "closed"),
    ]
    assert main_cause(chain).message == "held"


def test_the_root_is_the_main_cause_where_all_are_general() -> None:
    chain = [Cause("org.apache.spark.SparkException", "aborted"), Cause("java.io.IOException", "disk full")]
    assert main_cause(chain).name == "java.io.IOException"


def test_a_python_error_is_named_with_what_caused_it() -> None:
    with pytest.raises(RuntimeError) as raised:
        raise RuntimeError("outer") from KeyError("inner")

    assert [cause.name for cause in causes_of(raised.value)] == ["RuntimeError", "KeyError"]


def test_messages_and_chains_are_bounded() -> None:
    endless: Any = SimpleNamespace(getMessage=lambda: "long" * 5000)
    endless.getClass = lambda: SimpleNamespace(getName=lambda: "x.Y")
    endless.getCause = lambda: endless

    chain = list(java_causes(endless))
    assert len(chain) == CHAIN_LIMIT
    assert len(chain[0].message) == 4096
