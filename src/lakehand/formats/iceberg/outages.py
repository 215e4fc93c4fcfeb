# SPDX-License-Identifier: Apache-2.0
"""Catalogs that do not answer, and how long nobody asks them again."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

NO_ANSWER = frozenset(
    {"ConnectionError", "Timeout", "TimeoutError", "OperationalError", "InterfaceError", "TTransportException"}
)
AWAY = 15.0  # seconds for which a catalog that did not answer is not asked again


class Outages:
    """Catalogs that did not answer. For some seconds nobody waits for them again: waiting would take the threads that
    other tables need."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[str, tuple[float, str]] = {}

    @contextmanager
    def watched(self, name: str) -> Iterator[None]:
        until, why = self._known.get(name, (0.0, ""))
        if self._clock() < until:
            raise CatalogAway(f"the catalog {name} did not answer a moment ago: {why}")
        try:
            yield
        except CatalogAway:
            raise
        except Exception as error:
            if is_away(error):
                self._known[name] = (self._clock() + AWAY, f"{type(error).__name__}: {error}")
                raise CatalogAway(f"the catalog {name} does not answer: {error}") from error
            raise


class CatalogAway(OSError):
    """The catalog itself cannot be reached, whatever table was asked for."""


def is_away(error: BaseException | None) -> bool:
    """Whether nobody answered, in the words of requests, SQLAlchemy, Thrift or Python."""
    while error is not None:
        if {kind.__name__ for kind in type(error).__mro__} & NO_ANSWER:
            return True
        error = error.__cause__
    return False
