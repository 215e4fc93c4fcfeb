# SPDX-License-Identifier: Apache-2.0
"""The service as people run it: ``lakehand serve`` in a process of its own, gone with its driver afterwards."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from tests.kit.service import RunningService


@contextmanager
def serving(
    home: Path, warehouse: Path, *, database: str | None = None, program: str = "lakehand.cli", **settings: str
) -> Iterator[RunningService]:
    """A service that is ready. ``program`` is the module that serves."""
    service = RunningService(home, warehouse, database=database, log_level="warning", **settings)
    service.program = program
    try:
        yield service.start()
    finally:
        service.end()


def port_of(service: RunningService) -> int:
    port = urlsplit(service.url).port
    assert port is not None
    return port
