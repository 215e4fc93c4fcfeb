# SPDX-License-Identifier: Apache-2.0
"""A world on a fresh SQLite database."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from lakehand.store import open_store
from tests.core.world import World


@pytest.fixture
def store(sqlite_template: Path, tmp_path: Path) -> Any:
    return open_store(f"sqlite:///{shutil.copyfile(sqlite_template, tmp_path / 'lakehand.db')}")


@pytest.fixture
def world(store: Any) -> World:
    return World(store)


@pytest.fixture
def url(store: Any) -> str:
    return str(store.database.url)
