# SPDX-License-Identifier: Apache-2.0
"""The benches run and say what they measured; how fast it was is not this suite's business."""

import json
from pathlib import Path

import pytest

from bench.check import SAME, look
from bench.check_tables import subjects
from bench.fleet_tables import order_of
from bench.idle_tables import make_tables
from bench.load import instant
from bench.notify import Notify
from bench.report import Figure, store
from lakehand.domain.references import TableReference
from lakehand.formats.hudi.table import HudiFormat
from lakehand.formats.hudi.writer_options import why_unknown
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
