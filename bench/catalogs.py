# SPDX-License-Identifier: Apache-2.0
"""A sync of a REST catalog of 100 000 tables, a fake one: when all are new, and when nothing has changed."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.report import Figure, print_line

TABLES, QUICK_TABLES = 100_000, 1_000
MEGABYTE = 1 << 20


def run(folder: Path, *, quick: bool) -> list[Figure]:
    tables, figures = QUICK_TABLES if quick else TABLES, []
    with fake_catalog(tables) as url:
        for name in (f"{tables} new tables", f"{tables} tables, nothing new"):
            seen = sync(url, folder / "lakehand.db")
            print_line(f"catalog: {name}: {seen}")
            figures += [
                Figure(bench="catalog", name=f"{name}: time", value=seen["seconds"], unit="s"),
                Figure(bench="catalog", name=f"{name}: processor", value=seen["processor"], unit="s"),
                Figure(bench="catalog", name=f"{name}: memory", value=seen["memory"] / MEGABYTE, unit="MB"),
            ]
    return figures


@contextmanager
def fake_catalog(tables: int) -> Iterator[str]:
    command = [sys.executable, "-m", "bench.fake_rest_catalog", str(tables)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.terminate()


def sync(url: str, database: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench.catalog_sync", url, f"sqlite:///{database}"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    seen: dict[str, Any] = json.loads(done.stdout)
    return seen
