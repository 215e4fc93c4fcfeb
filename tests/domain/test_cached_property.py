# SPDX-License-Identifier: Apache-2.0
"""A cached property: computed once for each instance, and one that hangs stops no other instance."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Barrier, Event

from lakehand.domain.cached_property import cached_property


@dataclass(frozen=True, kw_only=True)
class Answer:
    go_on: Event = field(default_factory=Event)
    began: Event = field(default_factory=Event)

    @cached_property
    def value(self) -> list[int]:
        """What is asked for."""
        self.began.set()
        assert self.go_on.wait(60)
        return [1]


def test_an_instance_that_hangs_stops_no_other() -> None:
    hanging, other = Answer(), Answer()
    other.go_on.set()
    with ThreadPoolExecutor(2) as pool:
        stuck = pool.submit(lambda: hanging.value)
        try:
            assert hanging.began.wait(60)
            assert pool.submit(lambda: other.value).result(10) == [1]
        finally:
            hanging.go_on.set()
        assert stuck.result(60) == [1]


def test_threads_that_compute_it_at_once_get_the_same_object() -> None:
    answer, both = Answer(), Barrier(2)
    answer.go_on.set()

    def ask() -> list[int]:
        both.wait(60)
        return answer.value

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.submit(ask), pool.submit(ask)
        assert first.result(60) is second.result(60) is answer.value
    assert Answer.value.__doc__ == "What is asked for."
