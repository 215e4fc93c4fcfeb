# SPDX-License-Identifier: Apache-2.0
"""The order in which the demo goes on with its tables."""

from pathlib import Path

import pytest

from lakehand.client import LakehandClient
from lakehand.demo.console import DemoConsole, EventPrinter
from lakehand.demo.lake import Lake
from lakehand.demo.scenario import TableRun, at_once, next_run
from lakehand.demo.service import format_readers
from lakehand.demo.tables import demo_tables

SILENT = ("iceberg", "delta", "lance")


@pytest.fixture
def runs(tmp_path: Path) -> list[TableRun]:
    """Of three tables; nothing is sent to a service or a writer."""
    lake, readers = Lake(root=str(tmp_path), home=tmp_path), format_readers(SILENT)
    events = EventPrinter(LakehandClient("http://127.0.0.1:1"), DemoConsole())
    return [
        TableRun(table, lake=lake, format=readers[table.format], events=events, send=dict)
        for table in demo_tables(SILENT, url="http://127.0.0.1:1", lake=lake)
    ]


def waits_for_lakehand() -> bool:
    return False


def test_a_table_that_waited_for_lakehand_goes_on_before_the_one_that_is_being_damaged(runs: list[TableRun]) -> None:
    waiting, damaged, new = runs
    waiting.can_go_on = waits_for_lakehand

    assert next_run([waiting, damaged], [new]) is damaged

    waiting.can_go_on = at_once
    assert next_run([waiting, damaged], [new]) is waiting


def test_the_next_table_begins_while_those_before_it_wait_for_lakehand(runs: list[TableRun]) -> None:
    waiting, new, last = runs
    waiting.can_go_on = waits_for_lakehand
    started, coming = [waiting], [new, last]

    assert next_run(started, coming) is new
    assert (started, coming) == ([waiting, new], [last])


def test_when_every_table_waits_nothing_goes_on(runs: list[TableRun]) -> None:
    for run in runs:
        run.can_go_on = waits_for_lakehand

    assert next_run(runs, []) is None
