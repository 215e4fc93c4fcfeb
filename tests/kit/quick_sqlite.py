# SPDX-License-Identifier: Apache-2.0
"""SQLite for tests: thousands of fresh databases, without waiting for the disk and with statements compiled once."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import create_engine
from sqlalchemy.util import LRUCache

from lakehand.store import database

SETTINGS = database.SQLITE_SETTINGS  # as the service has them
STATEMENTS = 3000  # that are kept; all of the store's are fewer


@contextmanager
def quick_sqlite() -> Iterator[None]:
    """Every store that this process opens meanwhile is quick. Processes that tests start have the real settings.

    A commit does not wait for the disk: only a machine that loses power would show the difference. SQLAlchemy keeps
    compiled statements per dialect object, and each engine has one of its own: a fresh store would compile them again.
    """
    sample = create_engine("sqlite://")
    sample.connect().close()  # the dialect asks the database what it can do
    compiled: LRUCache[Any, Any] = LRUCache(STATEMENTS)
    open_database = database.Database.__init__

    def open_quickly(self: database.Database, *given: Any, **named: Any) -> None:
        open_database(self, *given, **named)
        if self.dialect == "sqlite":
            for engine in (self.engine, self.reader, self.writer):
                engine.dialect, engine._compiled_cache = sample.dialect, compiled

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(database, "SQLITE_SETTINGS", tuple(one.replace("= FULL", "= OFF") for one in SETTINGS))
        patch.setattr(database.Database, "__init__", open_quickly)
        yield
    sample.dispose()
