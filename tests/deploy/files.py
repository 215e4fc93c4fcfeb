# SPDX-License-Identifier: Apache-2.0
"""Reads the files of deploy/: the alerts, their tests, and the panels of the board."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
RULES = DEPLOY / "prometheus" / "lakehand.rules.yml"
RULE_TESTS = DEPLOY / "prometheus" / "lakehand.rules.test.yml"
CONFIG = DEPLOY / "prometheus" / "prometheus.yml"
BOARD = DEPLOY / "grafana" / "lakehand.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One expression of a panel, as Prometheus is asked it after the variables are filled in."""

    panel: str
    expr: str
    legend: str

    def __str__(self) -> str:
        return f"{self.panel}: {self.legend}"


def read_yaml(file: Path) -> Any:
    return yaml.safe_load(file.read_text(encoding="utf-8"))


def alerts() -> list[dict[str, Any]]:
    return [rule for group in read_yaml(RULES)["groups"] for rule in group["rules"]]


def read_board() -> dict[str, Any]:
    board: dict[str, Any] = json.loads(BOARD.read_text(encoding="utf-8"))
    return board


def panels() -> list[dict[str, Any]]:
    return [panel for panel in read_board()["panels"] if panel["type"] != "row"]


def queries() -> list[Query]:
    return [
        Query(panel=panel["title"], expr=target["expr"], legend=target["legendFormat"])
        for panel in panels()
        for target in panel["targets"]
    ]
