# SPDX-License-Identifier: Apache-2.0
"""An operation takes legal steps only."""

from dataclasses import replace

import pytest

from lakehand.domain.errors import IllegalStep
from lakehand.domain.operations import LIVE, NEXT, REOPENABLE, UNFINISHED, Status, external_id, may_link
from tests.domain.words import NOON, an_operation


@pytest.mark.parametrize("status", list(Status))
def test_each_status_is_final_live_or_pending(status: Status) -> None:
    assert [status.is_final, status.is_live, status is Status.PENDING].count(True) == 1


def test_every_unfinished_operation_can_reach_every_end_but_pending_cannot_succeed() -> None:
    ends = {s for s in Status if s.is_final}
    for status in UNFINISHED - {Status.PENDING}:
        assert ends <= NEXT[status]
    assert Status.SUCCEEDED not in NEXT[Status.PENDING]


@pytest.mark.parametrize("status", [s for s in Status if s.is_final])
def test_a_finished_operation_takes_no_step(status: Status) -> None:
    with pytest.raises(IllegalStep, match=f"is {status}"):
        replace(an_operation(), status=status).moved_to(Status.RUNNING, at=NOON, reason="")


def test_an_end_has_a_time_and_a_step_back_has_none() -> None:
    running = replace(an_operation(), status=Status.RUNNING)
    assert running.moved_to(Status.FAILED, at=NOON, reason="x").finished_at == NOON
    assert running.moved_to(Status.PENDING, at=NOON, reason="x").finished_at is None


@pytest.mark.parametrize("status", sorted(REOPENABLE))
def test_reopening_restores_all_attempts(status: Status) -> None:
    ended = replace(an_operation(), status=status, run_times=5, cancel_requested=True, is_deleted=True)
    again = ended.reopened(at=NOON, reason="retried")
    assert (again.status, again.run_times, again.cancel_requested, again.is_deleted) == (
        Status.PENDING,
        0,
        False,
        False,
    )


@pytest.mark.parametrize("status", sorted(LIVE | {Status.SUCCEEDED, Status.PENDING}))
def test_what_runs_or_succeeded_cannot_be_reopened(status: Status) -> None:
    with pytest.raises(IllegalStep):
        replace(an_operation(), status=status).reopened(at=NOON, reason="")


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:4040", "https://history:18080/history/application_17_0001/1", "https://h/app?attempt=1#stages"],
)
def test_a_page_may_link_to_an_address_of_the_web(url: str) -> None:
    assert may_link(url)


@pytest.mark.parametrize(
    "url",
    [
        "", "history:18080", "//history/app", "/etc/passwd", "file:///etc/passwd", "javascript:alert(1)",
        "data:text/html,x", "HTTPS:", "https://", "https://ann:hush@history/app", "https://ann@history/app",
        "https://h/app?token=hushhush",
        "https://h/app?api_key=hushhush", "https://h/app?secret=***", "https://h/a\nb",
        'https://h/"onclick="x', "https://h/<x>",
        "https://h/\u202egnp", "https://[h/app", "https://h/" + "x" * 1000,
    ],
)  # fmt: skip
def test_a_page_links_to_nothing_else(url: str) -> None:
    assert not may_link(url)
    named = external_id("app-1", url)
    assert named is not None
    assert named.url is None


@pytest.mark.parametrize("id", ["", "x" * 251, "app\n1", "app\x1b[1m", None, 7, ["app"]])
def test_what_is_no_short_text_names_no_attempt(id: object) -> None:
    assert external_id(id, "https://history/app") is None
