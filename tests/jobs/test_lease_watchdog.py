# SPDX-License-Identifier: Apache-2.0
"""The lease watchdog: when it asks an attempt to stop, and when it ends the driver."""

from pathlib import Path
from typing import cast

import pytest

from lakehand.jobs.attempt import JobAttempt
from lakehand.jobs.lease_watchdog import LeaseWatchdog, ProcessGroup
from tests.kit.sentences import Sentences


class Late:
    handle = "h"

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def overdue(self) -> float:
        return self.seconds


class Watched:
    """A process group in which nobody is killed."""

    def __init__(self, *, is_orphaned: bool = False) -> None:
        self.is_orphaned = is_orphaned
        self.heard: list[str] = []

    def end(self, reason: str) -> None:
        self.heard.append(reason)

    def watchdog(self, *attempts: Late) -> LeaseWatchdog:
        process_group, known = cast(ProcessGroup, self), cast(list[JobAttempt], list(attempts))
        return LeaseWatchdog(process_group, lambda: known, 2.0, lambda: self.heard.append("stop"))


@pytest.mark.parametrize(("overdue", "seen"), [(-1.0, []), (0.0, ["stop"]), (1.9, ["stop"]), (2.1, ["end", "stop"])])
def test_a_job_is_stopped_after_its_lease_and_the_driver_with_it_after_the_grace(
    overdue: float, seen: list[str], sentences: Sentences
) -> None:
    process_group = Watched()
    process_group.watchdog(Late(overdue), Late(-10.0)).check()

    assert ["stop" if words == "stop" else "end" for words in process_group.heard] == seen
    if "end" in seen:
        sentences.check("a job runs on after its lease", process_group.heard[0], job="h", overdue="2.1 s")


def test_the_driver_ends_when_its_jvm_is_gone(sentences: Sentences) -> None:
    process_group = Watched(is_orphaned=True)
    process_group.watchdog().check()

    [reason] = process_group.heard
    sentences.check("its JVM is gone", reason)


@pytest.mark.parametrize("pid", [1, 0, -1])
def test_a_driver_without_a_jvm_has_no_family_that_it_could_end(pid: int, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no JVM"):
        ProcessGroup(pid, tmp_path / "exit-reason")
