# SPDX-License-Identifier: Apache-2.0
"""lakehand catalogs ... and lakehand tables discover, through the real API."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakehand.store import SqlStore
from tests import small_tables
from tests.cli.conftest import Run, answer
from tests.kit.sentences import SECONDS, Sentences
from tests.rest.parts import Listed, context_over, serving


@pytest.fixture
def listed() -> Listed:
    return Listed(["orders", "returns"])


@pytest.fixture
def url(store: SqlStore, listed: Listed) -> Iterator[str]:
    with serving(context_over(store, listed=listed)) as client:
        yield str(client.base_url)


def test_catalogs_are_listed_and_followed(lakehand: Run, sentences: Sentences) -> None:
    synced = lakehand("catalogs", "sync")

    assert synced.exit_code == 0, synced.output
    sentences.check("a sync", synced.stdout.splitlines()[0], catalog="lake", tables=2, added=2)
    assert "+ db.orders" in synced.stdout
    assert answer(lakehand("catalogs", "list", "--json"))["items"][0]["last_sync"]["tables"] == 2
    assert "hush" not in lakehand("catalogs", "list").stdout
    assert answer(lakehand("tables", "show", "lake:db.orders", "--json"))["catalog"] == "lake"


def test_a_dry_run_of_a_sync_says_what_would_be(lakehand: Run, sentences: Sentences) -> None:
    shown = lakehand("catalogs", "sync", "lake", "--dry-run").stdout.splitlines()[0]
    sentences.check("a sync as a dry run", shown, catalog="lake", tables=2, added=2)
    assert answer(lakehand("tables", "list", "--catalog", "lake", "--json"))["items"] == []


def test_a_sync_that_cannot_be_trusted_fails_the_command_and_says_how_to_go_on(lakehand: Run, listed: Listed) -> None:
    lakehand("catalogs", "sync")
    listed.names = []

    kept = lakehand("catalogs", "sync")

    assert kept.exit_code == 1
    assert "? db.orders" in kept.stdout
    assert lakehand("catalogs", "sync", "lake", "--accept-empty").exit_code == 0


def test_discovered_tables_are_printed_as_documents(type_in: Run, tmp_path: Path) -> None:
    small_tables.hudi(tmp_path / "a" / "trips")
    small_tables.delta(tmp_path / "orders", commits=1)

    result = type_in("tables", "discover", tmp_path, "--json")

    assert [json.loads(line) for line in result.stdout.splitlines()] == [
        {"location": f"{tmp_path}/a/trips", "format": "hudi", "also": []},
        {"location": f"{tmp_path}/orders", "format": "delta", "also": []},
    ]


def test_discovered_tables_are_registered_and_a_refusal_stops_nobody(
    lakehand: Run, tmp_path: Path, sentences: Sentences
) -> None:
    """The service of this test serves /data only, and knows no delta."""
    small_tables.hudi(tmp_path / "trips")
    small_tables.delta(tmp_path / "orders", commits=1)

    shown = lakehand("tables", "discover", tmp_path, "--register").stdout

    assert f"refused    hudi     {tmp_path}/trips" in shown
    found = {"tables": 2, "formats": "1 delta, 1 hudi", "folders": 3, "seconds": SECONDS}
    sentences.check("discovered tables", shown.splitlines()[-1], **found)


def test_an_empty_folder_has_no_tables(type_in: Run, tmp_path: Path, sentences: Sentences) -> None:
    result = type_in("tables", "discover", tmp_path)

    assert result.exit_code == 1
    sentences.check("no tables in a folder", result.stderr.strip(), folder=tmp_path)
