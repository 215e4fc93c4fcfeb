# SPDX-License-Identifier: Apache-2.0
"""lakehand operations ... and explain: every command through the real API."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

import pytest

from lakehand.domain.operations import Attempt, Handle, InstanceId, OperationId, Status
from lakehand.domain.processes import Json
from lakehand.store import SqlStore
from tests.cli.conftest import Run, answer
from tests.kit.sentences import Sentences

INSTANT = "20261114191013982"
ME = InstanceId("me")


@pytest.fixture(autouse=True)
def table(lakehand: Run) -> None:
    lakehand("tables", "add", "/data/trips")


def submit(lakehand: Run, instant: str = INSTANT) -> int:
    return int(answer(lakehand("operations", "submit", "trips", "compaction", "--instant", instant, "--json"))["id"])


def run_to(store: SqlStore, id: int, status: Status, result: Mapping[str, Json] | None = None) -> None:
    """What the loops would do: claim, submit, end."""
    now = store.clock.now()
    operation = store.operations.claim(
        store.operations.get(OperationId(id)), holder=ME, now=now, time_to_live=timedelta(minutes=1)
    )
    assert operation is not None
    attempt = Attempt(
        operation=operation.id, number=1, handle=Handle("h-1"), engine="spark", instance=ME, started_at=now
    )
    submitted = operation.moved_to(Status.SUBMITTED, at=now, reason="given to spark")
    saved = store.operations.save(submitted, now=now, attempt=attempt)
    if status is not Status.SUBMITTED:
        ended = saved.moved_to(status, at=now, reason="as the table shows")
        store.operations.save(replace(ended, result=result or {}), now=now, release=True)


def test_the_same_plan_twice_is_one_operation(lakehand: Run) -> None:
    assert submit(lakehand) == submit(lakehand)

    assert len(answer(lakehand("operations", "list", "--json"))["items"]) == 1


def test_operations_are_filtered_by_table_action_and_status(lakehand: Run) -> None:
    number = submit(lakehand)

    def ids(*words: str) -> list[int]:
        return [one["id"] for one in answer(lakehand("operations", "list", *words, "--json"))["items"]]

    assert ids("--table", "trips", "--action", "compaction", "--status", "pending", "--status", "running") == [number]
    assert ids("--status", "failed") == []


def test_an_operation_is_canceled_retried_and_removed(lakehand: Run, sentences: Sentences) -> None:
    number = submit(lakehand)

    assert answer(lakehand("operations", "cancel", number, "--json"))["items"][0]["status"] == "canceled"
    assert answer(lakehand("operations", "retry", number, "--json"))["items"][0]["status"] == "pending"
    removed = lakehand("operations", "remove", number).stdout.strip()
    sentences.check("an operation is removed", removed, operation=number)
    assert answer(lakehand("operations", "show", number, "--json"))["is_deleted"] is True


def test_clear_asks_first_and_removes_all_that_is_unfinished(lakehand: Run) -> None:
    submit(lakehand)
    submit(lakehand, "20261114191013983")

    refused = lakehand("operations", "clear", "trips", input="n\n")
    cleared = answer(lakehand("operations", "clear", "trips", "--yes", "--json"))

    assert refused.exit_code == 1
    assert len(cleared["removed"]) == 2


def test_people_see_why_an_operation_is_where_it_is(lakehand: Run) -> None:
    number = submit(lakehand)

    shown = lakehand("operations", "show", number).stdout

    assert "compaction of trips" in shown
    assert INSTANT in shown
    assert "asked for" in shown
    assert "trips" in lakehand("operations", "list").stdout


@pytest.mark.parametrize(("end", "code"), [(Status.SUCCEEDED, 0), (Status.DROPPED, 0), (Status.FAILED, 1)])
def test_watching_ends_with_the_operation_and_its_status(
    lakehand: Run, store: SqlStore, end: Status, code: int
) -> None:
    number = submit(lakehand)
    run_to(store, number, end)

    result = lakehand("operations", "show", number, "--watch", "--json")

    assert result.exit_code == code
    assert json.loads(result.stdout.splitlines()[-1])["status"] == end


def test_the_log_of_an_attempt_is_printed_whole(lakehand: Run, store: SqlStore) -> None:
    number = submit(lakehand)
    run_to(store, number, Status.SUCCEEDED)

    assert lakehand("operations", "logs", number, "--follow").stdout == "log of h-1\n"


def test_attempts_are_shown(lakehand: Run, store: SqlStore) -> None:
    number = submit(lakehand)
    run_to(store, number, Status.SUBMITTED)

    shown = lakehand("operations", "show", number).stdout

    assert "ENGINE" in shown
    assert "spark" in shown


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["operations", "show", "99"], "99"),
        (["operations", "submit", "trips", "vacuum"], "vacuum"),
        (["operations", "submit", "trips", "clean"], "--actions +clean"),
        (["operations", "submit", "trips", "compaction", "--instant", "soon"], "soon"),
        (["operations", "submit", "trips", "compaction", "--option", "spark.jars=x"], "spark.jars"),
        (["operations", "list", "--status", "odd"], "odd"),
    ],
)
def test_a_refusal_is_one_line_that_names_the_thing(lakehand: Run, words: list[str], says: str) -> None:
    result = lakehand(*words)

    assert result.exit_code == 1
    assert says in result.stderr
    assert result.stderr.count("\n") == 1


def test_explain_says_why_nothing_runs(lakehand: Run) -> None:
    reported = answer(lakehand("explain", "trips", "--json"))

    assert {one["action"]: one["wanted"] for one in reported["actions"]} == {
        "clean": False, "clustering": False, "compaction": True,
    }  # fmt: skip
    assert "--actions +clean" in lakehand("explain", "trips").stdout


def test_a_terminal_shows_a_live_view_that_ends_with_the_operation(
    lakehand: Run, store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    number = submit(lakehand)
    run_to(store, number, Status.SUCCEEDED)

    result = lakehand("operations", "show", number, "--watch")

    assert result.exit_code == 0, result.output
    assert "succeeded" in result.stdout


def test_what_a_dry_run_would_delete_is_listed(lakehand: Run, store: SqlStore, sentences: Sentences) -> None:
    lakehand("tables", "change", "trips", "--actions", "clean")
    asked = answer(lakehand("operations", "submit", "trips", "clean", "--dry-run", "--json"))
    listing: dict[str, Json] = {
        "would_delete": [f"/data/trips/{n}.parquet" for n in range(60)],
        "would_delete_files": 70,
    }
    run_to(store, asked["id"], Status.SUCCEEDED, {**listing, "would_delete_bytes": 3 * 1024 * 1024})

    shown = lakehand("operations", "show", asked["id"]).stdout

    [would] = [line for line in shown.splitlines() if "3.0 MB" in line]
    sentences.check("what a dry run would delete", would.strip(), files=70, size="3.0 MB")
    assert "/data/trips/50.parquet" not in shown
    [more] = re.findall(r"/data/trips/49\.parquet\n(.*)", shown)
    sentences.check("more files than are listed", more.strip(), more=20)


def test_a_dry_run_of_what_has_none_is_refused_in_one_line(lakehand: Run, sentences: Sentences) -> None:
    result = lakehand("operations", "submit", "trips", "compaction", "--dry-run")

    assert result.exit_code == 1
    sentences.check("no dry run", result.stderr.strip(), action="compaction")
