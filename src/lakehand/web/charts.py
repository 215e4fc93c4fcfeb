# SPDX-License-Identifier: Apache-2.0
"""Charts as data: the series that the browser draws, and the table behind them. Pure."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from markupsafe import Markup

from lakehand.web.texts import DASH, iso, number

LONGEST_TABLE = 200  # rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    name: str
    colour: str  # a colour of the style sheet
    x: Sequence[str]
    y: Sequence[float | None]
    bars: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """Something that happened at a time, for instance an operation."""

    at: datetime
    text: str
    colour: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    id: str
    title: str
    series: Sequence[Series]
    annotations: Sequence[Annotation] = ()
    kind: str = "time"  # or "category"
    unit: str = ""
    nothing: str = "There is nothing to show yet."
    stacked: bool = False
    first_column: str = "time"

    @property
    def is_empty(self) -> bool:
        """No line has a point, and no bar has a height."""
        return not any(any(one.y) if one.bars else one.x for one in self.series)

    @property
    def json(self) -> Markup:
        """As the content of a script element: nothing in it can end the element."""
        document: dict[str, Any] = {
            "kind": self.kind,
            "unit": self.unit,
            "barmode": "stack" if self.stacked else "group",
            "series": [
                {"name": one.name, "colour": one.colour, "x": list(one.x), "y": list(one.y), "bars": one.bars}
                for one in self.series
                if any(value for value in one.y) or not one.bars
            ],
            "annotations": [
                {"x": iso(annotation.at), "text": annotation.text, "colour": annotation.colour}
                for annotation in self.annotations
            ],
        }
        text = json.dumps(document, ensure_ascii=True)
        return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))  # noqa: S704

    @property
    def head(self) -> Sequence[str]:
        return [self.first_column, *(one.name for one in self.series)]

    @property
    def rows(self) -> Iterable[Sequence[str]]:
        """The newest rows, newest first; categories in their order."""
        keys = list(dict.fromkeys(x for one in self.series for x in one.x))
        values = [dict(zip(one.x, one.y, strict=True)) for one in self.series]
        ordered = sorted(keys, reverse=True)[:LONGEST_TABLE] if self.kind == "time" else keys
        for key in ordered:
            yield [key, *(DASH if one.get(key) is None else number(one[key]) for one in values)]
