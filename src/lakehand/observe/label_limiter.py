# SPDX-License-Identifier: Apache-2.0
"""Bounds how many values a label has, as each one costs memory here and in Prometheus."""

MOST_VALUES = 200
LONGEST_VALUE = 60


class LabelLimiter:
    """Passes the first values of a label, and replaces all later ones by "other"."""

    def __init__(self, most: int = MOST_VALUES) -> None:
        self._most = most
        self._values: set[str] = set()

    def __call__(self, value: str) -> str:
        value = value[:LONGEST_VALUE] or "none"
        if value not in self._values:
            if len(self._values) >= self._most:
                return "other"
            self._values.add(value)
        return value
