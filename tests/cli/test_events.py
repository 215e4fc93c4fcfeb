# SPDX-License-Identifier: Apache-2.0
"""lakehand events ..., through the real API."""

import httpx

from tests.cli.conftest import Run, answer
from tests.rest.parts import LOCATION, add_table


def test_an_event_is_sent_and_the_answer_is_shown(lakehand: Run, url: str) -> None:
    with httpx.Client(base_url=url) as client:
        add_table(client, db_name="sales", table_name="trips")

    assert (
        "the table's actions are due now"
        in lakehand("events", "send", LOCATION, "--version", 42, "--partition", "day=1").stdout
    )
    assert answer(lakehand("events", "send", "sales.trips", "--json"))["stored"] == 1
    waiting = lakehand("events", "send", "lake:db.new")
    assert (waiting.exit_code, "its catalog is read now" in waiting.stdout) == (0, True)


def test_a_refused_event_fails_the_command_and_is_in_the_list(lakehand: Run) -> None:
    assert "nothing happened yet" in lakehand("events", "list").stdout

    refused = lakehand("events", "send", "/data/unknown", "--format", "delta")

    assert refused.exit_code == 1
    assert "/data/unknown: the table is not registered" in refused.stdout
    assert "commits.refused" in lakehand("events", "list", "--kind", "commits.").stdout
    [stored] = answer(lakehand("events", "list", "--json"))["items"]
    assert (stored["times"], stored["detail"]) == (1, {"last": "/data/unknown"})
