# SPDX-License-Identifier: Apache-2.0
"""Finds a few texts at the top of a JSON object as it streams in, without keeping or understanding the rest.

A commit callback carries the statistics of every written file, megabytes of them, behind the three texts that matter.
"""

import json
import re
from collections.abc import Collection

LONGEST_TEXT = 4096
MOST_KEYS = 1000  # at the top; Hudi sends six
MOST_MARKS = 200_000  # brackets and the like; the statistics of twenty thousand files have half of that

_TEXT = re.compile(rb'[^"\\]*(?:\\.[^"\\]*)*', re.DOTALL)  # the inside of a JSON text, up to its end or ours
_TOP = re.compile(rb'["{}\[\]:,]')
# Everything that a value deeper down holds, texts included, up to the next bracket or a text that goes on elsewhere.
_DEEP = re.compile(rb'[^"{}\[\]]*(?:"[^"\\]*(?:\\.[^"\\]*)*"[^"{}\[\]]*)*', re.DOTALL)


class TopTexts:
    """Feed it pieces of any size; ``found`` fills, and ``is_over`` says that more pieces can tell nothing new."""

    def __init__(self, wanted: Collection[str]) -> None:
        self.found: dict[str, str] = {}
        self.is_over = False
        self._wanted = frozenset(wanted)
        self._depth = 0
        self._keys = 0
        self._marks = 0
        self._key: str | None = None
        self._is_value = False
        self._text: bytearray | None = None  # the open text at the top
        self._in_text = False
        self._escaped = False

    def feed(self, piece: bytes) -> None:
        at = 0
        while at < len(piece) and not self.is_over:
            if self._in_text:
                at = self._through_text(piece, at)
            elif self._depth > 1:
                at = self._through_depth(piece, at)
            else:
                at = self._through_top(piece, at)

    def _through_text(self, piece: bytes, at: int) -> int:
        start = at
        if self._escaped:  # the last piece ended in a backslash
            self._escaped, at = False, at + 1
        found = _TEXT.match(piece, at)
        assert found is not None
        end = found.end()
        if end < len(piece) and piece[end] == 0x22:
            self._keep(piece[start:end])
            self._end_text()
            return end + 1
        self._escaped = end < len(piece)
        self._keep(piece[start:])
        return len(piece)

    def _through_depth(self, piece: bytes, at: int) -> int:
        found = _DEEP.match(piece, at)
        assert found is not None
        end = found.end()
        if end == len(piece):
            return end
        return self._mark(piece[end], end)

    def _through_top(self, piece: bytes, at: int) -> int:
        found = _TOP.search(piece, at)
        if found is None:
            return len(piece)
        return self._mark(piece[found.start()], found.start())

    def _mark(self, byte: int, at: int) -> int:
        self._marks += 1
        if self._marks > MOST_MARKS:
            self.is_over = True
        elif byte == 0x22:
            self._in_text = True
            self._text = bytearray() if self._depth == 1 else None
        elif byte in b"{[":
            self._depth += 1
        elif byte in b"}]":
            self._depth -= 1
            self.is_over = self._depth <= 0
        elif self._depth == 1:
            self._is_value = byte == 0x3A
        return at + 1

    def _keep(self, part: bytes) -> None:
        if self._text is not None and len(self._text) <= LONGEST_TEXT:
            self._text += part[: LONGEST_TEXT + 1]

    def _end_text(self) -> None:
        self._in_text = False
        if self._text is None:
            return
        text = decoded(bytes(self._text)) if len(self._text) <= LONGEST_TEXT else None
        if not self._is_value:
            self._key = text
            self._keys += 1
            self.is_over = self._keys > MOST_KEYS
        elif text is not None and self._key in self._wanted:
            self.found.setdefault(self._key, text)
            self.is_over = len(self.found) == len(self._wanted)


def decoded(inside: bytes) -> str | None:
    try:
        text = json.loads(f'"{inside.decode()}"', strict=False)
    except ValueError:
        return None
    # Half a surrogate pair is a text that no database and no answer can carry.
    return text.encode("utf-8", "replace").decode() if isinstance(text, str) else None
