# SPDX-License-Identifier: Apache-2.0
"""The stored tokens in memory, read again every few seconds: a request with a wrong token costs no query."""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from lakehand.core.ports import Store
from lakehand.domain.tokens import Token, TokenId

KEEP = 2.0  # seconds: so late is a revoked token refused by another instance
NOTE_USE = timedelta(minutes=1)


@dataclass(kw_only=True)
class TokenCache:
    store: Store
    keep: float = KEEP
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _by_hash: Mapping[str, Token] = field(default_factory=dict)
    _read_at: float = float("-inf")
    _used: set[TokenId] = field(default_factory=set)

    def find(self, hash: str) -> Token | None:
        """The token, valid or not."""
        self.read()
        found = self._by_hash.get(hash)
        if found is not None:
            self._used.add(found.id)
        return found

    def by_id(self, id: TokenId) -> Token | None:
        self.read()
        return next((token for token in self._by_hash.values() if token.id == id), None)

    def remembered(self, hash: str, *, is_use: bool = False) -> Token | None:
        """As ``find``, without a query."""
        found = self._by_hash.get(hash)
        if found is not None and is_use:
            self._used.add(found.id)
        return found

    @property
    def is_fresh(self) -> bool:
        """Whether a question now takes no query."""
        return time.monotonic() - self._read_at < self.keep

    @property
    def was_empty(self) -> bool:
        """As ``is_empty``, without a query."""
        return not self._by_hash

    @property
    def is_empty(self) -> bool:
        """Whether no token was ever made."""
        self.read()
        return not self._by_hash

    def forget(self) -> None:
        """Read again at the next question."""
        self._read_at = float("-inf")

    def read(self) -> None:
        with self._lock:
            if self.is_fresh:
                return
            now = self.store.clock.estimate()
            self.note_use(now)
            self._by_hash = dict(self.store.tokens.list())
            self._read_at = time.monotonic()

    def note_use(self, now: datetime) -> None:
        used, self._used = self._used, set()
        due = [
            token.id
            for token in self._by_hash.values()
            if token.id in used and (token.used_at is None or now - token.used_at > NOTE_USE)
        ]
        if due:
            self.store.tokens.note_use(due, now=now)
