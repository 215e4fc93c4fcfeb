# SPDX-License-Identifier: Apache-2.0
"""Writes the Grafana board from its panels: python -m tools.grafana_board."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tools.board import ROWS
from tools.board.panel import Panel

FILE = Path(__file__).parents[1] / "deploy" / "grafana" / "lakehand.json"
SCHEMA = 41  # of Grafana 11.6 and 12; newer ones migrate it when they read it
CHOSEN = 'job=~"$job",instance=~"$instance"'
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
METRIC = "lakehand_tables_probed_total"  # every instance has it
WIDTH, LINE = 24, 120  # columns of the board, characters of the file
HEIGHTS = {"row": 1, "stat": 4, "timeseries": 8}
GREEN, RED = {"color": "green", "value": None}, "red"


def board() -> dict[str, Any]:
    return {
        "uid": "lakehand",
        "title": "Lakehand",
        "description": "Tables, operations, engines, API and loops of Lakehand.",
        "tags": ["lakehand"],
        "schemaVersion": SCHEMA,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "1m",
        "time": {"from": "now-24h", "to": "now"},
        "timezone": "browser",
        "templating": {"list": variables()},
        "panels": [{"id": number, **one} for number, one in enumerate(placed(), start=1)],
    }


def variables() -> list[dict[str, Any]]:
    source = {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "refresh": 1}
    job = variable("job", "Job", f"label_values({METRIC}, job)")
    instances = variable("instance", "Instance", f'label_values({METRIC}{{job=~"$job"}}, instance)')
    return [source, job, {**instances, "multi": True, "includeAll": True, "allValue": ".+", "current": everything()}]


def variable(name: str, label: str, query: str) -> dict[str, Any]:
    return {
        "name": name, "label": label, "type": "query", "datasource": SOURCE, "definition": query,
        "query": {"query": query, "refId": "A"}, "refresh": 2, "sort": 1,
    }  # fmt: skip


def everything() -> dict[str, Any]:
    return {"selected": True, "text": ["All"], "value": ["$__all"]}


def placed() -> Iterator[dict[str, Any]]:
    """Rows and panels with their positions, from left to right and from top to bottom."""
    top = 0
    for title, panels in ROWS.items():
        yield {"type": "row", "title": title, "collapsed": False, "panels": [], "gridPos": area(0, top, WIDTH, "row")}
        top, left = top + HEIGHTS["row"], 0
        for one, following in zip(panels, [*panels[1:], None], strict=True):
            yield panel(one, area(left, top, one.width, one.kind))
            left += one.width
            if following is None or left + following.width > WIDTH:
                top, left = top + HEIGHTS[one.kind], 0


def area(left: int, top: int, width: int, kind: str) -> dict[str, int]:
    return {"x": left, "y": top, "w": width, "h": HEIGHTS[kind]}


def panel(one: Panel, where: dict[str, int]) -> dict[str, Any]:
    return {
        "type": one.kind,
        "title": one.title,
        "description": one.description,
        "datasource": SOURCE,
        "gridPos": where,
        "targets": [target(chr(ord("A") + n), *query) for n, query in enumerate(one.queries.items())],
        "fieldConfig": {"defaults": look_of(one), "overrides": []},
        "options": STAT_OPTIONS if one.kind == "stat" else SERIES_OPTIONS,
    }


STAT_OPTIONS = {"colorMode": "background", "graphMode": "none", "reduceOptions": {"calcs": ["lastNotNull"]}}
SERIES_OPTIONS = {
    "legend": {"displayMode": "list", "placement": "bottom"},
    "tooltip": {"mode": "multi", "sort": "desc"},
}


def target(name: str, legend: str, expr: str) -> dict[str, Any]:
    return {"refId": name, "datasource": SOURCE, "expr": expr.replace("@", CHOSEN), "legendFormat": legend}


def look_of(one: Panel) -> dict[str, Any]:
    """Colours and lines: green, and red from the alarm on."""
    steps = [GREEN] if one.alarm is None else [GREEN, {"color": RED, "value": one.alarm}]
    look: dict[str, Any] = {"unit": one.unit, "min": 0, "thresholds": {"mode": "absolute", "steps": steps}}
    if one.kind == "timeseries":
        stacking = {"mode": "normal"} if one.stacked else {"mode": "none"}
        line = {"mode": "off" if one.alarm is None else "dashed"}
        look["custom"] = {"fillOpacity": 10, "showPoints": "never", "stacking": stacking, "thresholdsStyle": line}
    return look


def dump(value: Any, indent: int = 0, before: int = 0) -> str:
    """JSON with sorted keys, in which whatever fits into a line is one line."""
    line = json.dumps(value, sort_keys=True)
    if not isinstance(value, dict | list) or indent + before + len(line) < LINE:
        return line
    inner = indent + 1
    if isinstance(value, dict):
        parts = [f"{json.dumps(key)}: {dump(value[key], inner, len(key) + 4)}" for key in sorted(value)]
        return "{\n" + ",\n".join(" " * inner + part for part in parts) + "\n" + " " * indent + "}"
    return "[\n" + ",\n".join(" " * inner + dump(one, inner) for one in value) + "\n" + " " * indent + "]"


def text() -> str:
    return dump(board()) + "\n"


def main() -> None:
    FILE.write_text(text(), encoding="utf-8")


if __name__ == "__main__":
    main()
