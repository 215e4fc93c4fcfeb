# SPDX-License-Identifier: Apache-2.0
"""A second compaction executes its own plan, and those of others only if stray keys are in their file groups."""

from typing import Any

import pytest

from lakehand.jobs.hudi import checks, stray_keys, timelines
from lakehand.jobs.hudi.stray_keys import StrayKeyGuard
from lakehand.jobs.job import Job

OWN, OTHER = "20261118201632705", "20261118201600138"


class Timeline:
    """Plans of a table in memory; a new one takes the stray keys that are in no file group of another plan."""

    def __init__(self, *others: str, in_others: int, in_none: int) -> None:
        self.pending, self.executed = list(others), list[str]()
        self.in_others, self.in_none = in_others, in_none

    def plan(self, _: object) -> None:
        self.pending.append(f"{OWN[:-1]}{len(self.executed)}")

    def compact(self, instant: str, _: object) -> list[dict[str, Any]]:
        self.pending.remove(instant)
        self.executed.append(instant)
        if instant != OTHER:
            self.in_none = 0
        else:
            self.in_others, self.in_none = 0, self.in_others
        return []


def compacted(timeline: Timeline, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(timelines, "pending", lambda *_: sorted(timeline.pending))
    monkeypatch.setattr(checks, "check_under_lock", lambda _: None)
    monkeypatch.setattr(stray_keys, "inside_the_lock", lambda _: {})
    job: Any = Job(None, {})  # type: ignore[arg-type]
    guard = StrayKeyGuard(job, "orders", plan=timeline.plan, compact=timeline.compact, options={})
    guard._compact_again(2, lambda: timeline.in_others + timeline.in_none)
    found: dict[str, Any] = guard.report()["stray_keys"]
    return found


def test_a_plan_of_others_waits_for_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    timeline = Timeline(OTHER, in_others=0, in_none=2)

    assert compacted(timeline, monkeypatch)["left"] == 0
    assert OTHER not in timeline.executed


def test_a_plan_of_others_that_has_the_stray_keys_is_executed_and_compacted_after(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What it leaves is stray, too: keys that were written again since it was made."""
    timeline = Timeline(OTHER, in_others=2, in_none=0)

    found = compacted(timeline, monkeypatch)

    assert (found["found"], found["left"], found["why"]) == (2, 0, "")
    assert len(timeline.executed) == 3
    assert timeline.executed[1] == OTHER
