# SPDX-License-Identifier: Apache-2.0
"""lakehand events ..., through the real API."""

import httpx

from tests.cli.conftest import Run, answer
from tests.kit.sentences import Sentences
from tests.rest.parts import LOCATION, add_table


def test_an_event_is_sent_and_the_answer_is_shown(lakehand: Run, url: str, sentences: Sentences) -> None:
    with httpx.Client(base_url=url) as client:
        add_table(client, db_name="sales", table_name="trips")

    sent = lakehand("events", "send", LOCATION, "--version", 42, "--partition", "day=1").stdout.strip()
    sentences.check("an event is stored", sent)
    assert answer(lakehand("events", "send", "sales.trips", "--json"))["stored"] == 1
    waiting = lakehand("events", "send", "lake:db.new")
    assert waiting.exit_code == 0
    sentences.check("an event of a new table", waiting.stdout.strip(), table="lake:db.new")


def test_a_refused_event_fails_the_command_and_is_in_the_list(lakehand: Run, sentences: Sentences) -> None:
    sentences.check("no events", lakehand("events", "list").stdout.strip())

    refused = lakehand("events", "send", "/data/unknown", "--format", "delta")

    assert refused.exit_code == 1
    sentences.check("an event is refused", refused.stdout.strip(), location="/data/unknown")
    assert "commits.refused" in lakehand("events", "list", "--kind", "commits.").stdout
    [stored] = answer(lakehand("events", "list", "--json"))["items"]
    assert (stored["times"], stored["detail"]) == (1, {"last": "/data/unknown"})
