# SPDX-License-Identifier: Apache-2.0
"""Numbers of a plugin's own, which ``/metrics`` shows: named and labelled once, and bounded, whatever is counted."""

import math
import re
import threading
from collections.abc import Mapping, Sequence
from typing import ClassVar

from lakehand.domain.errors import Invalid

MOST_LABELS = 4
MOST_SERIES = 200  # that a metric may ask for
LONGEST_VALUE = 60
OTHER = "other"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,59}")
_RESERVED_LABELS = ("le", "quantile", "job", "instance")  # Prometheus' own


class PluginMetric:
    """A number for each combination of label values. Create it once, with the plugin; safe to use from any thread.

    The first ``most`` combinations are kept. What comes later counts as one whose values are all ``other``: a label
    that takes whatever a stranger's table is called cannot fill the memory of the service or of Prometheus.
    """

    kind: ClassVar[str] = ""

    def __init__(self, name: str, meaning: str, *, labels: Sequence[str] = (), most: int = 50) -> None:
        wrong = [one for one in (name, *labels) if not _NAME.fullmatch(one)]
        if wrong:
            raise Invalid(f"{wrong[0]!r} cannot name a metric or a label: use lower-case letters, digits and _")
        if name.endswith("_total"):
            raise Invalid(f"{name}: leave out _total, counters get it by themselves")
        if len(labels) > MOST_LABELS or len(set(labels)) < len(labels) or set(labels) & set(_RESERVED_LABELS):
            raise Invalid(f"{name} has the labels {', '.join(labels)}: use at most {MOST_LABELS}, each once, none of "
                          f"{', '.join(_RESERVED_LABELS)}")  # fmt: skip
        if not 1 <= most <= MOST_SERIES:
            raise Invalid(f"{name} keeps {most} combinations of label values: keep 1 to {MOST_SERIES}")
        self.name, self.meaning, self.labels, self.most = name, meaning, tuple(labels), most
        starts_at_zero = self.kind == "counter" and not labels  # Prometheus sees no increase in one that begins at 1
        self._numbers: dict[tuple[str, ...], float] = {(): 0.0} if starts_at_zero else {}
        self._lock = threading.Lock()

    def samples(self) -> Mapping[tuple[str, ...], float]:
        """The numbers now, by the values of the labels in their order."""
        with self._lock:
            return dict(self._numbers)

    def _series(self, values: Mapping[str, object]) -> tuple[str, ...]:
        if set(values) != set(self.labels):
            given, wanted = (", ".join(names) or "none" for names in (values, self.labels))
            raise ValueError(f"the metric {self.name} has the labels {wanted}, not {given}")
        return tuple(str(values[label])[:LONGEST_VALUE] or "none" for label in self.labels)

    def _put(self, values: Mapping[str, object], number: float, *, add: bool) -> None:
        if not math.isfinite(number):
            raise ValueError(f"the metric {self.name} cannot be {number}")
        series = self._series(values)
        with self._lock:
            if series not in self._numbers and len(self._numbers) >= self.most:
                series = (OTHER,) * len(self.labels)
            self._numbers[series] = number + (self._numbers.get(series, 0.0) if add else 0.0)


class Counter(PluginMetric):
    """Counts up, from 0 when the service starts."""

    kind = "counter"

    def add(self, amount: float = 1.0, **labels: object) -> None:
        if amount < 0:
            raise ValueError(f"the counter {self.name} cannot go down by {-amount}")
        self._put(labels, amount, add=True)


class Gauge(PluginMetric):
    """The last value. Beyond its bound that of ``other`` is the last one of any."""

    kind = "gauge"

    def set(self, value: float, **labels: object) -> None:
        self._put(labels, value, add=False)

    def remove(self, **labels: object) -> None:
        """Forget a combination, which makes place for another one."""
        series = self._series(labels)
        with self._lock:
            self._numbers.pop(series, None)
