# SPDX-License-Identifier: Apache-2.0
"""lakehand tables ...: every command through the real API."""

import pytest

from tests.cli.conftest import Run, answer
from tests.kit.sentences import Sentences


def test_a_table_is_registered_listed_and_shown(lakehand: Run) -> None:
    added = answer(lakehand("tables", "add", "/data/trips", "--owner", "finance", "--priority", 3, "--json"))

    assert added["action_types"] == ["compaction"]
    assert [table["id"] for table in answer(lakehand("tables", "list", "--json"))["items"]] == [added["id"]]
    assert answer(lakehand("tables", "show", "trips", "--json"))["owner"] == "finance"


@pytest.mark.parametrize("name", ["1", "trips", "sales.trips", "/data/sales/trips", "file:///data/sales/trips/"])
def test_a_table_is_found_by_whatever_people_call_it(lakehand: Run, name: str) -> None:
    lakehand("tables", "add", "/data/sales/trips", "--db", "sales")

    assert answer(lakehand("tables", "show", name, "--json"))["location"] == "/data/sales/trips"


def test_a_name_that_two_tables_have_is_refused_with_their_ids(lakehand: Run, sentences: Sentences) -> None:
    lakehand("tables", "add", "/data/a/trips")
    lakehand("tables", "add", "/data/b/trips")

    result = lakehand("tables", "show", "trips")

    assert result.exit_code == 1
    refused = result.stderr.replace("2, 1", "1, 2").strip()
    sentences.check("a name of two tables", refused, name="trips", ids="1, 2")


@pytest.mark.parametrize(
    ("words", "actions"),
    [("+clustering", ["clustering", "compaction"]), ("+clean,-compaction", ["clean"]), ("clean", ["clean"])],
)
def test_actions_are_added_taken_away_or_replaced(lakehand: Run, words: str, actions: list[str]) -> None:
    lakehand("tables", "add", "/data/trips")

    assert answer(lakehand("tables", "change", "trips", "--actions", words, "--json"))["action_types"] == actions


def test_an_action_is_taken_away_with_a_minus(lakehand: Run) -> None:
    lakehand("tables", "add", "/data/trips", "--actions", "compaction,clean")

    changed = answer(lakehand("tables", "change", "trips", "--actions", "-clean", "--json"))

    assert changed["action_types"] == ["compaction"]


def test_properties_are_added_and_dropped_and_the_others_stay(lakehand: Run) -> None:
    lakehand("tables", "add", "/data/trips", "-p", "hudi.clean.commits=3", "-p", "hudi.clean.retain-commits=4")

    change = ["--property", "hudi.clustering.commits=5", "--drop-property", "hudi.clean.commits"]
    changed = answer(lakehand("tables", "change", "trips", *change, "--json"))

    assert changed["properties"] == {"hudi.clean.retain-commits": "4", "hudi.clustering.commits": "5"}


def test_a_table_is_paused_resumed_and_removed(lakehand: Run, sentences: Sentences) -> None:
    lakehand("tables", "add", "/data/trips")

    assert answer(lakehand("tables", "pause", "trips", "--json"))["paused"] is True
    assert answer(lakehand("tables", "resume", "trips", "--json"))["paused"] is False
    assert lakehand("tables", "remove", "trips").exit_code == 0
    sentences.check("no tables", lakehand("tables", "list").stdout.strip())


def test_an_evaluation_is_requested_and_explained(lakehand: Run) -> None:
    lakehand("tables", "add", "/data/trips")

    evaluated = lakehand("tables", "evaluate", "trips")

    assert evaluated.exit_code == 0, evaluated.output
    assert "compaction" in evaluated.stdout
    old = lakehand("tables", "look", "trips", "--watch")
    assert (old.exit_code, "lakehand tables evaluate" in old.stderr) == (1, True)


def test_people_see_a_table_in_words(lakehand: Run) -> None:
    lakehand("tables", "add", "/data/trips", "--db", "sales")

    shown = lakehand("tables", "show", "sales.trips").stdout

    assert "sales.trips" in shown
    assert "/data/trips" in shown
    assert "600 s" in shown


def test_a_long_list_says_that_there_is_more(lakehand: Run, sentences: Sentences) -> None:
    for name in ("a", "b", "c"):
        lakehand("tables", "add", f"/data/{name}")

    assert len(answer(lakehand("tables", "list", "--limit", 2, "--json"))["items"]) == 2
    shown = lakehand("tables", "list", "--limit", 2).stdout.splitlines()[-1].strip()
    sentences.check("more tables than are listed", shown)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["tables", "show", "nowhere"], "lakehand tables add"),
        (["tables", "add", "/elsewhere/trips"], "'/elsewhere/trips'"),
        (["tables", "add", "/data/trips", "--actions", "vacuum"], "vacuum"),
        (["tables", "add", "/data/trips", "-p", "nonsense"], "KEY=VALUE"),
        (["tables", "show", "99"], "99"),
    ],
)
def test_a_refusal_is_one_line_that_names_the_thing(lakehand: Run, words: list[str], says: str) -> None:
    result = lakehand(*words)

    assert result.exit_code == 1
    assert says in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_change_of_nothing_says_how_to_change_something(lakehand: Run) -> None:
    lakehand("tables", "add", "/data/trips")

    assert "--help" in lakehand("tables", "change", "trips").stderr
