# SPDX-License-Identifier: Apache-2.0
"""Finds a few texts at the top of a JSON object as it streams in, without keeping the rest.

A commit callback carries the statistics of every written file, megabytes of them, after the texts that matter.
"""

from collections.abc import Collection
from contextlib import suppress
from typing import Any
from weakref import finalize

import ijson

LONGEST_TEXT = 4096
LONGEST_SKIPPED = 128 * 1024  # bytes of one value; the parser keeps a value until its end
MOST_KEYS = 1000  # at the top; Hudi sends six
MOST_VALUES = 200_000  # keys, values and brackets; the statistics of nine thousand files

# The C backend scans a text again from its start for every piece: a megabyte of escapes takes seconds.
_PARSER: Any = ijson.get_backend("python")
_DEPTH = {"start_map": 1, "start_array": 1, "end_map": -1, "end_array": -1}


class TopTexts:
    """Feed it pieces of any size; ``found`` fills, and ``is_over`` says that more pieces cannot change it."""

    def __init__(self, wanted: Collection[str]) -> None:
        self.found: dict[str, str] = {}
        self.is_over = False
        self._wanted = frozenset(wanted)
        self._events: list[tuple[str, Any]] = ijson.sendable_list()
        self._parser: Any = _PARSER.basic_parse_coro(self._events, use_float=True)
        self._depth = self._keys = self._values = self._silent = 0
        self._key: str | None = None
        finalize(self, close, self._parser)

    def feed(self, piece: bytes) -> None:
        if self.is_over:
            return
        try:
            self._parser.send(piece)
        except (ijson.JSONError, StopIteration, ValueError, ArithmeticError):  # no JSON, or after its end
            self.is_over = True
        self._silent = 0 if self._events else self._silent + len(piece)
        for event, value in self._events:
            self._take(event, value)
        self._values += len(self._events)
        self._events.clear()
        exceeds = self._values > MOST_VALUES or self._keys > MOST_KEYS or self._silent > LONGEST_SKIPPED
        self.is_over = self.is_over or exceeds or len(self.found) == len(self._wanted)

    def _take(self, event: str, value: Any) -> None:
        self._depth += _DEPTH.get(event, 0)
        if self._depth != 1:
            return
        if event == "map_key":
            self._key, self._keys = value, self._keys + 1
        elif event == "string" and self._key in self._wanted and len(value) <= LONGEST_TEXT:
            # Half of a surrogate pair cannot be stored or sent.
            self.found.setdefault(self._key, value.encode("utf-8", "replace").decode())


def close(parser: Any) -> None:
    """A parser complains about an unfinished document when it is collected."""
    with suppress(ijson.JSONError, ValueError):
        parser.close()
