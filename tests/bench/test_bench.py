# SPDX-License-Identifier: Apache-2.0
"""The benches run and say what they measured; how fast it was is not this suite's business."""

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from bench.check import SAME, look
from bench.check_tables import subjects
from bench.dispatch import CROWDS, LIMITS, fill, one_round
from bench.event_delivery import Delivery, Sizes
from bench.event_stream import Stream, events_of
from bench.fleet_tables import order_of
from bench.idle_tables import COMPLETED, make_tables
from bench.load import instant
from bench.notify import Notify
from bench.report import Figure, store
from lakehand.domain.tables import TableReference
from lakehand.formats.hudi.table import HudiFormat
from lakehand.formats.hudi.writer_options import why_unknown
from lakehand.store import open_store
from lakehand.store.migrate import upgrade
from tests.formats.hudi.runtime import ORDERS_V9, copied


@pytest.mark.long
def test_notifications_are_counted_beside_empty_handlers(tmp_path: Path) -> None:
    notify = Notify(database="sqlite", seconds=0.2, rounds=1)

    figures = notify.run(tmp_path, f"sqlite:///{tmp_path / 'lakehand.db'}")

    assert notify.stored > 0
    assert all(figure.value > 0 for figure in figures)


def test_instants_of_the_load_are_times_and_never_repeat() -> None:
    made = [instant(number) for number in (0, 1, 999, 1000, 59_999, 60_000, 86_400_000, 28 * 86_400_000)]

    assert sorted(set(made)) == made
    assert made[-1] == b"20240201000000000"


def test_every_event_of_the_stream_comes_after_its_change_and_some_are_doubled_late_or_swapped(
    tmp_path: Path,
) -> None:
    tables = [str(path) for path in make_tables(tmp_path, 10)]
    stream = Stream(
        home="", tables=tables, events=5000, batch=1, connections=1, doubled=0.25, late=0.125, swapped=0.125
    )  # fmt: skip

    sent = list(events_of(stream))

    times = Counter(event.id for event in sent)
    assert set(times) == set(range(1, max(times) + 1)), "every change has an event"
    assert 0.09 < sum(count == 2 for count in times.values()) / len(times) < 0.16
    assert 0.1 < sum(a.id > b.id for a, b in pairwise(sent)) / len(sent) < 0.4
    versions = sum(version_of(Path(table)) for table in tables)
    assert versions == len(times), "one change for each event"


def version_of(table: Path) -> int:
    [name] = [file.name for file in (table / ".hoodie" / "timeline").iterdir() if "_" in file.name]
    return int(name.partition("_")[2].partition(".")[0]) - int(COMPLETED)


@pytest.mark.long
def test_commit_events_are_delivered_while_the_service_is_killed(tmp_path: Path) -> None:
    figures = Delivery(sizes=Sizes(events=400, tables=10, kills=1)).run(tmp_path)

    assert [figure.name for figure in figures if figure.is_reached is False] == []


def test_an_idle_table_is_a_hudi_table_in_which_nothing_is_to_do(tmp_path: Path) -> None:
    [path] = make_tables(tmp_path, 1)

    snapshot = HudiFormat().inspect(TableReference(location=str(path)))

    assert (len(snapshot.timeline.completed()), snapshot.pending) == (1, ())
    assert why_unknown(snapshot) is None


def test_a_loop_by_hand_gets_the_order_that_the_service_gives_its_job(tmp_path: Path) -> None:
    path = copied("orders_v9", tmp_path)

    order = order_of(path)

    assert (order["location"], order["instant"]) == (str(path), ORDERS_V9)
    assert order["options"]["hoodie.write.lock.provider"]


def test_checks_are_compared_with_listings_that_say_the_same(tmp_path: Path) -> None:
    for subject in subjects(tmp_path, 20):
        ours, theirs = look(subject).numbers, subject.counted()

        assert theirs["files"] == 20
        assert {name: ours[name] for name in SAME} == {name: theirs[name] for name in SAME}, subject.format


def test_a_round_of_dispatch_starts_something_in_each_crowd(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'lakehand.db'}"
    upgrade(url)
    store = open_store(url)
    started = []
    for values in CROWDS.values():
        fill(store, 400, values)
        started.append(len(one_round(store, LIMITS).go))
    store.close()

    assert started == [16, 1, 1]


def test_a_figure_knows_whether_its_goal_was_reached(tmp_path: Path) -> None:
    figures = [
        Figure(bench="b", name="n", value=2, at_most=1),
        Figure(bench="b", name="n", value=2, at_least=1, unit="s"),
        Figure(bench="b", name="n", value=2),
    ]
    store(figures, tmp_path / "figures.json")

    stored = json.loads((tmp_path / "figures.json").read_text())
    assert [row["is_reached"] for row in stored] == [False, True, None]
    assert [figure.goal for figure in figures] == ["≤ 1", "≥ 1 s", ""]
