# SPDX-License-Identifier: Apache-2.0
"""lakehand tables history: a plot that fits on 80 columns, marks of operations, and plain sentences otherwise."""

from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from io import StringIO
from typing import Any

import pytest

from lakehand.cli.history import Plot, history_view, letters_of, start_of
from lakehand.cli.options import CommandFailed
from lakehand.client import Document
from lakehand.domain.health import HealthPoint
from lakehand.output import SafeConsole
from lakehand.store import SqlStore
from tests.cli.conftest import Run, answer
from tests.kit.sentences import Sentences

NOW = datetime(2026, 11, 17, 12, tzinfo=timezone.utc)
HOUR = timedelta(hours=1)
TABLE: Document = {"id": 1, "db_name": "sales", "table_name": "orders"}


def point(hours_ago: float, **numbers: int) -> Document:
    return {"at": (NOW - hours_ago * HOUR).isoformat(), "numbers": numbers}


def end(action: str, hours_ago: float, status: str = "succeeded") -> Document:
    return {"action": action, "status": status, "finished_at": (NOW - hours_ago * HOUR).isoformat()}


def printed(points: list[Document], *operations: Document, number: str = "files", **table: Any) -> list[str]:
    document = {"table": {**TABLE, **table}, "points": points, "operations": list(operations)}
    console = SafeConsole(file=StringIO(), width=80)
    console.print(history_view(document, number=number, now=NOW))
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return text.splitlines()


def test_a_plot_has_a_title_a_scale_the_times_and_a_summary_on_80_columns(sentences: Sentences) -> None:
    lines = printed([point(24, files=1204), point(12, files=640), point(1, files=812)])

    title = {"table": "sales.orders", "number": "files", "span": "24 h", "points": 3}
    sentences.check("title of a plot", lines[0], **title)
    assert lines[2].startswith("1,204 ┤⠉")
    assert [line.split("┤")[0].strip() for line in lines[2:12]] == ["1,204", "", "", "", "", "602", "", "", "", "0"]
    assert "2026-11-16 12:00" in lines[13]
    assert lines[13].endswith("2026-11-17 12:00 UTC")
    numbers = {"now": 812, "first": "1,204", "lowest": 640, "highest": "1,204"}
    sentences.check("summary of a plot", lines[-1], **numbers)
    assert max(map(len, lines)) <= 80


def test_a_small_scale_has_a_true_middle() -> None:
    labels = [line.split("┤")[0].strip() for line in printed([point(2, files=9)])[2:12]]

    assert [label for label in labels if label] == ["9", "4.5", "0"]


def test_bytes_have_a_unit(sentences: Sentences) -> None:
    lines = printed([point(2, bytes=3 * 2**30)], number="bytes")

    assert lines[2].startswith("3.0 GB ┤")
    numbers = {"now": "3.0 GB", "first": "3.0 GB", "lowest": "3.0 GB", "highest": "3.0 GB"}
    sentences.check("summary of a plot", lines[-1], **numbers)
    sentences.check("title of a plot with one point", lines[0], number="bytes", points=1)


def test_operations_are_marked_where_they_ended_and_counted() -> None:
    ends = [end("optimize", 12), end("optimize", 6), end("vacuum", 6, "failed"), end("vacuum", 1)]
    lines = printed([point(24, files=5)], *ends)

    [marks] = [line for line in lines if set(line.strip()) == {"o", "!", "v", " "}]
    width = len(lines[12].lstrip().removeprefix("└"))
    start = lines[12].index("└") + 1
    assert [round((at - start) / width * 24) for at in (marks.index("o"), marks.index("!"), marks.index("v"))] == [
        12, 18, 23,
    ]  # fmt: skip
    assert "o  optimize: 2 succeeded" in lines
    assert "v  vacuum: 1 failed, 1 succeeded (!)" in lines


def test_different_actions_have_different_letters() -> None:
    actions = ["compaction", "clustering", "clean"]

    letters = letters_of([end(action, 1) for action in actions])

    assert letters == {"clean": "c", "clustering": "l", "compaction": "o"}


def test_different_operations_in_one_column_are_a_star() -> None:
    plot = Plot(
        points=[(NOW, 1.0)], end=NOW + HOUR, marks=[(NOW, "a"), (NOW, "b"), (NOW + HOUR, "c"), (NOW - HOUR, "d")]
    )

    assert plot.mark_line(10) == "*        c"


@pytest.mark.parametrize("values", [[0], [0, 0, 1], [5], [2**62, 1]])
@pytest.mark.parametrize("span", [timedelta(), HOUR, timedelta(days=365)])
@pytest.mark.parametrize("width", [10, 80, 300])
def test_any_numbers_over_any_time_can_be_drawn(values: list[float], span: timedelta, width: int) -> None:
    points = [(NOW + span * at / len(values), value) for at, value in enumerate(values)]

    lines = list(Plot(points=points, end=NOW + span).lines(width))

    assert len(lines) == 12


def test_a_table_without_a_point_gets_a_sentence(sentences: Sentences) -> None:
    text = " ".join(line.strip() for line in printed([]))

    sentences.check("no health in that time", text, table="sales.orders", command="lakehand tables evaluate 1")


def test_a_problem_comes_first() -> None:
    lines = printed([point(1, files=1)], problem="/w/orders cannot be read: no bucket", problem_since=NOW.isoformat())

    assert lines[0].startswith("/w/orders cannot be read: no bucket")


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("90m", NOW - 1.5 * HOUR),
        ("7d", NOW - timedelta(days=7)),
        ("2026-11-01T00:00:00Z", datetime(2026, 11, 1, tzinfo=timezone.utc)),
        ("2026-11-01T02:00:00+02:00", datetime(2026, 11, 1, tzinfo=timezone.utc)),
        ("2026-11-01", datetime(2026, 11, 1, tzinfo=timezone.utc)),
    ],
)
def test_since_takes_a_duration_or_a_time(text: str, start: datetime) -> None:
    assert start_of(text, NOW) == start


@pytest.mark.parametrize("text", ["", "soon", "-3d", "99999999999d", "2026-13-01", "0001-01-01T00:00:00+14:00"])
def test_since_refuses_everything_else(text: str) -> None:
    with pytest.raises(CommandFailed, match="90m, 12h, 7d"):
        start_of(text, NOW)


# Through the real API


def store_points(store: SqlStore, table: int, *numbers: Mapping[str, Any]) -> None:
    now = store.clock.now()
    for age, one in enumerate(reversed(numbers)):
        known = HealthPoint(at=now - age * HOUR - timedelta(minutes=1), numbers=one)
        store.probes.finish({}, {}, health={table: known}, now=now)  # type: ignore[dict-item]


def test_the_history_of_a_table_is_shown(lakehand: Run, store: SqlStore, sentences: Sentences) -> None:
    table = answer(lakehand("tables", "add", "/data/trips", "--json"))["id"]
    shown = " ".join(lakehand("tables", "history", "trips").stdout.split())
    sentences.check("no health in that time", shown, table="trips", command=f"lakehand tables evaluate {table}")

    store_points(store, table, {"files": 9, "rows": 5}, {"files": 3, "small_files": 1, "bytes": 2048})

    plotted = lakehand("tables", "history", "trips").stdout.splitlines()[-1].strip()
    sentences.check("summary of a plot", plotted, now=3, first=9, lowest=3, highest=9)
    assert "2.0 KB" in lakehand("tables", "history", "trips", "--number", "bytes").stdout.splitlines()[-1]
    assert lakehand("tables", "history", "trips", "--since", "30m").stdout.splitlines()[0].endswith(", 1 point")
    shown = answer(lakehand("tables", "history", "trips", "--json"))
    assert [one["numbers"]["files"] for one in shown["points"]] == [9, 3]
    assert "3 files (2.0 KB), 1 small" in lakehand("tables", "show", "trips").stdout


def test_a_table_that_cannot_be_read_is_shown_as_such_everywhere(lakehand: Run, store: SqlStore) -> None:
    table, now = answer(lakehand("tables", "add", "/data/trips", "--json"))["id"], store.clock.now()
    store.probes.finish({table: now}, {}, problems={table: "no such bucket"}, now=now)

    assert "trips (unreadable)" in lakehand("tables", "list").stdout
    for words in (("tables", "show"), ("tables", "history"), ("explain",)):
        assert "no such bucket (" in lakehand(*words, "trips").stdout


def test_a_number_that_the_table_does_not_have_is_refused_with_those_that_it_has(
    lakehand: Run, store: SqlStore, sentences: Sentences
) -> None:
    table = answer(lakehand("tables", "add", "/data/trips", "--json"))["id"]
    store_points(store, table, {"files": 9, "histogram": {"< 1 MB": 9}})

    result = lakehand("tables", "history", "trips", "--number", "histogram")

    assert result.exit_code == 1
    found = {"table": "trips", "number": "'histogram'", "numbers": "files"}
    sentences.check("no such number", result.stderr.strip(), **found)
