# SPDX-License-Identifier: Apache-2.0
"""The guard of leases: when it asks, and when it ends everything."""

from typing import cast

import pytest

from lakehand.jobs.attempt import Attempt
from lakehand.jobs.guard import Guard


class Late:
    handle = "h"

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def overdue(self) -> float:
        return self.seconds


@pytest.mark.parametrize(
    ("overdue", "seen"), [(-1.0, []), (0.0, ["stop"]), (1.9, ["stop"]), (2.1, ["h goes on 2.1 s", "stop"])]
)
def test_a_job_is_stopped_after_its_lease_and_the_driver_with_it_after_the_grace(
    overdue: float, seen: list[str]
) -> None:
    heard: list[str] = []
    attempts = [cast(Attempt, Late(overdue)), cast(Attempt, Late(-10.0))]
    guard = Guard(lambda: attempts, grace=2.0, on_expiry=lambda: heard.append("stop"), die=heard.append)
    guard.look()

    assert [words.removesuffix(" after its lease ended") for words in heard] == seen


def test_the_driver_ends_when_its_jvm_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[str] = []
    guard = Guard(list, grace=2.0, on_expiry=lambda: None, die=heard.append)
    monkeypatch.setattr("os.getppid", lambda: 1)
    guard.look()

    assert heard == ["its JVM is gone"]
