# SPDX-License-Identifier: Apache-2.0
"""Charts as data, the bars of attempts, and texts for people."""

import json
import re
from datetime import datetime, timedelta, timezone

import pytest

from lakehand.domain.operations import Attempt, Handle, InstanceId, OperationId
from lakehand.web.charts import WIDTH, Annotation, Axis, Chart, Series, timeline
from lakehand.web.texts import ago, brief, number, shown, span

NOON = datetime(2026, 11, 17, 12, tzinfo=timezone.utc)


def a_chart(**values: object) -> Chart:
    given = {"id": "c", "title": "t", "series": [Series(name="files", colour="working", x=["a", "b"], y=[1, None])]}
    return Chart(**{**given, **values})  # type: ignore[arg-type]


def test_a_chart_has_a_table_behind_it() -> None:
    chart = a_chart()

    assert chart.head == ["time", "files"]
    assert list(chart.rows) == [["b", "–"], ["a", "1"]]


def test_the_data_of_a_chart_cannot_end_its_element() -> None:
    one = Annotation(at=NOON, text="</script><script>alert(1)</script>", colour="failed")

    text = str(a_chart(annotations=[one]).json)

    assert "<" not in text
    assert json.loads(text)["annotations"][0]["text"] == one.text


@pytest.mark.parametrize(
    ("series", "is_empty"),
    [
        ([], True),
        ([Series(name="n", colour="c", x=["a"], y=[0], bars=True)], True),
        ([Series(name="n", colour="c", x=["a"], y=[0])], False),
        ([Series(name="n", colour="c", x=["a"], y=[2], bars=True)], False),
    ],
)
def test_a_chart_without_points_or_bars_is_empty(series: list[Series], is_empty: bool) -> None:
    assert a_chart(series=series).is_empty is is_empty


def an_attempt(begin: float, end: float | None, outcome: str = "failed") -> Attempt:
    return Attempt(
        operation=OperationId(1), number=1, handle=Handle("h"), engine="spark", instance=InstanceId("i"),
        started_at=NOON + timedelta(seconds=begin), outcome=outcome,
        finished_at=None if end is None else NOON + timedelta(seconds=end),
    )  # fmt: skip


def test_each_attempt_is_a_bar_within_the_axis() -> None:
    axis = Axis(NOON, NOON + timedelta(seconds=100))

    drawn = str(timeline(axis, [an_attempt(10, 20), an_attempt(50, None, "")]))

    assert re.findall(r'rect class="(\w+)" x', drawn) == ["waiting", "failed", "waiting", "running"]
    for left, width in re.findall(r'x="([\d.]+)" y="\d+" width="([\d.]+)"', drawn):
        assert float(left) + float(width) <= WIDTH + 0.1
    assert "waited 30 s" in drawn
    assert "<style" not in drawn


def test_no_attempt_is_no_picture() -> None:
    assert timeline(Axis(NOON, NOON), []) == ""


def test_texts_for_people() -> None:
    assert number(12481) == "12\u202f481"
    assert number(None) == "–"
    assert span(timedelta(minutes=3)) == "3 min"
    assert ago(NOON - timedelta(hours=5), NOON) == "5 h ago"
    assert ago(NOON + timedelta(minutes=20), NOON) == "in 20 min"
    assert brief("One. Two.\nThree") == "One. …"
    assert shown("a\u202eb") == "a\\u202eb"
