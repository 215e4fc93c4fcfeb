# SPDX-License-Identifier: Apache-2.0
"""The Grafana board as a file: made from its list of panels, complete, and about metrics that exist."""

import re
from itertools import combinations
from typing import Any

import pytest

from tests.deploy.files import BOARD, Query, panels, queries, read_board
from tests.deploy.promql import kept_labels, problems, selectors
from tools.grafana_board import text

IN_LEGEND = re.compile(r"\{\{(\w+)\}\}")
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
asked = pytest.mark.parametrize("query", queries(), ids=str)
shown = pytest.mark.parametrize("panel", panels(), ids=lambda panel: panel["title"])


def overlap(a: dict[str, int], b: dict[str, int]) -> bool:
    return (
        a["x"] < b["x"] + b["w"] and b["x"] < a["x"] + a["w"] and a["y"] < b["y"] + b["h"] and b["y"] < a["y"] + a["h"]
    )


def test_the_file_is_what_its_panels_make() -> None:
    assert BOARD.read_text(encoding="utf-8") == text(), "run: python -m tools.grafana_board"


def test_the_board_can_be_imported_beside_others() -> None:
    board = read_board()

    assert (board["uid"], board["title"], "id" in board) == ("lakehand", "Lakehand", False)
    assert board["schemaVersion"] >= 39
    assert [one["name"] for one in board["templating"]["list"]] == ["datasource", "job", "instance"]


def test_panels_have_numbers_and_titles_of_their_own_and_do_not_overlap() -> None:
    every = read_board()["panels"]
    areas = [panel["gridPos"] for panel in every]

    assert len({panel["id"] for panel in every}) == len({panel["title"] for panel in every}) == len(every) > 30
    assert [pair for pair in combinations(areas, 2) if overlap(*pair)] == []
    assert all(area["x"] + area["w"] <= 24 for area in areas)


@shown
def test_a_panel_says_what_it_shows_and_in_which_unit(panel: dict[str, Any]) -> None:
    assert panel["title"]
    assert panel["description"].endswith(".")
    assert panel["fieldConfig"]["defaults"]["unit"]
    assert panel["targets"]
    assert all(one["datasource"] == SOURCE for one in (panel, *panel["targets"]))


@asked
def test_the_metrics_and_labels_of_a_panel_exist(query: Query) -> None:
    assert problems(query.expr) == []


@asked
def test_a_panel_is_about_the_chosen_job_and_instances(query: Query) -> None:
    assert [name for name, labels in selectors(query.expr) if not {"job", "instance"} <= labels] == []
    assert {"$job", "$instance"} <= set(re.findall(r'=~"(\$\w+)"', query.expr))


@asked
def test_the_legend_of_a_panel_names_labels_that_its_series_have(query: Query) -> None:
    assert set(IN_LEGEND.findall(query.legend)) - kept_labels(query.expr) == set()
