# SPDX-License-Identifier: Apache-2.0
"""A panel of the Grafana board.

In an expression, ``@`` stands for the chosen job and instances. What every instance reports of the whole fleet is a
maximum over the instances, never a sum. Where nothing is a normal answer, ``or on () vector(0)`` makes it a zero.
"""

from dataclasses import dataclass

ZERO = " or on () vector(0)"
HOURLY = "suffix: /h"


@dataclass(frozen=True, slots=True)
class Panel:
    title: str
    description: str
    unit: str
    queries: dict[str, str]  # legend → expression
    kind: str = "timeseries"
    width: int = 8  # of 24
    stacked: bool = False
    alarm: float | None = None  # red from here on; without it, no value is bad as such


def quantiles(metric: str, labels: str = "@", window: str = "$__rate_interval") -> dict[str, str]:
    rates = f"sum by (le) (rate({metric}_bucket{{{labels}}}[{window}]))"
    return {f"p{100 * share:g}": f"histogram_quantile({share}, {rates})" for share in (0.5, 0.95, 0.99)}


def stat(title: str, description: str, expr: str, unit: str = "short", alarm: float | None = None) -> Panel:
    return Panel(title, description, unit, {title: expr}, kind="stat", width=4, alarm=alarm)
