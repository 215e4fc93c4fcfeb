# SPDX-License-Identifier: Apache-2.0
"""A world on a fresh SQLite database."""

from typing import Any

import pytest

from lakehand.store import open_store
from lakehand.store.migrate import upgrade
from tests.core.world import World


@pytest.fixture
def store(sqlite_url: str) -> Any:
    upgrade(sqlite_url)
    return open_store(sqlite_url)


@pytest.fixture
def world(store: Any) -> World:
    return World(store)
