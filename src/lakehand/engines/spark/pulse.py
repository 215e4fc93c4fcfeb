# SPDX-License-Identifier: Apache-2.0
"""Tells a silent driver from a working one: for how long its beat has not moved, by the service's own clock."""

from collections.abc import Callable

from lakehand.engines.spark.spool import Document


class Pulse:
    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._seen: tuple[object, object] | None = None
        self._since = clock()

    def silence(self, is_alive: bool, state: Document) -> float:
        """Seconds since the last new beat; 0 while no driver lives."""
        beat = (state.get("boot"), state.get("beat")) if is_alive else None
        if beat is None or beat != self._seen:
            self._seen, self._since = beat, self._clock()
        return self._clock() - self._since
