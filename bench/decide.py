# SPDX-License-Identifier: Apache-2.0
"""Deciding at scale: one pass of prober and coordinator over thousands of tables, beside a script that only probes."""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any

from pydantic import SecretStr
from sqlalchemy import Row, create_engine, text

from bench.mixed_tables import MadeTable, MixedLake
from bench.report import Figure, print_line
from lakehand.app.settings import Settings
from lakehand.app.wiring import THREADS, Service, build
from lakehand.core.ports import OperationFilter
from lakehand.domain.operations import Operation
from lakehand.domain.tables import HEARTBEAT_TIMEOUT, Format, TableReference, TableSpec
from lakehand.store import migrate

TABLES = 10_000
CHANGED = 100  # one of so many
ROUNDS = 3
BATCH = 500


def run(folder: Path, *, quick: bool) -> list[Figure]:
    count = 1000 if quick else TABLES
    lake = MixedLake.at(folder / "lake")
    print_line(f"decide: making {count} tables of three formats")
    made = lake.make(count)
    url = f"sqlite:///{folder / 'lakehand.db'}"
    migrate.upgrade(url)
    service = build(Settings(home=folder / "home", database=SecretStr(url), warehouses=[str(folder / "lake")]))
    try:
        register(service, made)
        run_pass(service)  # the first evaluations inspect every table: that pass is not for changes
        return measured(service, lake, made, url)
    finally:
        service.stop()


def register(service: Service, made: Sequence[MadeTable]) -> None:
    now = service.store.clock.now()
    for table in made:
        name = Format(table.format)
        spec = TableSpec(
            location=str(table.path), format=name, table_name=table.path.name,
            action_types=frozenset(service.plugins.actions_of(name)),
        )  # fmt: skip
        service.store.tables.add(spec, now=now)


def measured(service: Service, lake: MixedLake, made: Sequence[MadeTable], url: str) -> list[Figure]:
    ours, bare, delays = [], [], []
    for number in range(ROUNDS):
        bare.append(len(made) / bare_sweep(service, url))
        spoiled = made[number::CHANGED]
        for table in spoiled:
            lake.spoil(table)
        make_due(url)
        began = service.store.clock.now()
        ours.append(len(made) / run_pass(service))
        stored = stored_since(service, began)
        delays += [(one.created_at - began).total_seconds() for one in stored]
        print_line(f"decide: round {number + 1}: {len(stored)} operations for {len(spoiled)} changed tables")
        if len({one.table for one in stored}) < len(spoiled):
            raise RuntimeError("a change was not found")
    late = sorted(delays)[int(0.95 * (len(delays) - 1))]
    share = 100 * median(mine / its for mine, its in zip(ours, bare, strict=True))
    return [
        Figure(bench="decide", name=f"{len(made)} tables, 1 % changed: probed", value=median(ours), unit="/s"),
        Figure(bench="decide", name="a bare script, same probes and threads", value=median(bare), unit="/s"),
        Figure(bench="decide", name="share of the bare script", value=share, unit="%", at_least=50),
        Figure(bench="decide", name="from a change to pending, one pass, p95", value=late, unit="s"),
    ]


def run_pass(service: Service) -> float:
    """LeaseGrant nothing is due: what the loops that find and decide do, without their pauses."""
    began = time.perf_counter()
    prober, coordinator = service.loops["prober"], service.loops["coordinator"]
    has_more = True
    while has_more:
        has_more = prober.run_once()
        has_more = coordinator.run_once() or has_more
    return time.perf_counter() - began


def make_due(url: str) -> None:
    """As if the heartbeat of every table had passed."""
    engine = create_engine(url)
    with engine.begin() as tx:
        tx.execute(text(f"UPDATE tbl SET probe_due = probe_due - {HEARTBEAT_TIMEOUT // timedelta(milliseconds=1)}"))
    engine.dispose()


def stored_since(service: Service, moment: datetime) -> list[Operation]:
    page = service.store.operations.list(OperationFilter(), limit=1000, cursor=None)
    return [one for one in page.items if one.created_at >= moment]


def bare_sweep(service: Service, url: str) -> float:
    """Reads the list, probes with as many threads, writes the tokens back in batches. Nothing else."""
    began = time.perf_counter()
    engine = create_engine(url)
    with engine.begin() as tx:
        rows = tx.execute(text("SELECT id, format, base_path FROM tbl WHERE NOT removed")).all()

    def probe(row: Row[Any]) -> dict[str, Any]:
        return {
            "id": row.id,
            "token": service.plugins.formats[row.format].probe(TableReference(location=row.base_path)),
        }

    with ThreadPoolExecutor(THREADS) as pool:
        tokens = list(pool.map(probe, rows))
    now = int(time.time() * 1000)
    for start in range(0, len(tokens), BATCH):
        batch = [{**one, "now": now} for one in tokens[start : start + BATCH]]
        with engine.begin() as tx:
            tx.execute(text("UPDATE tbl SET change_token = :token, look_time = :now WHERE id = :id"), batch)
    engine.dispose()
    return time.perf_counter() - began
