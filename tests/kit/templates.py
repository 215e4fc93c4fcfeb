# SPDX-License-Identifier: Apache-2.0
"""Folders that are made once for all test processes: tables that take seconds to write and moments to copy."""

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """The folder that the first process to need it makes; the others wait for it. A user copies it, or only reads."""
    folder = shared_folder(factory) / name
    folder.parent.mkdir(parents=True, exist_ok=True)
    made = folder.with_name(f"{folder.name}.made")
    with locked(folder.with_name(f"{folder.name}.lock")):
        if not made.exists():
            shutil.rmtree(folder, ignore_errors=True)  # of a process that failed in the middle
            make(folder)
            made.touch()
    return folder


def shared_folder(factory: pytest.TempPathFactory) -> Path:
    own = factory.getbasetemp()
    return (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "templates"


@contextmanager
def locked(file: Path) -> Iterator[None]:
    with file.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
