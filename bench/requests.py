# SPDX-License-Identifier: Apache-2.0
"""Requests to S3, by format: of a probe, of a whole evaluation, and what thousands of tables at rest cost per month.

An evaluation is what the service does: it probes, inspects and decides about all actions of the table.
"""

import time
from collections import Counter
from datetime import timedelta
from pathlib import Path

from pydantic import SecretStr
from rich.table import Table

from bench.decide import make_due, run_pass
from bench.report import Figure, console, print_line
from lakehand.app.setting_groups import S3Settings, StorageSettings
from lakehand.app.settings import CatalogSettings, Settings
from lakehand.app.wiring import Service, build
from lakehand.domain.tables import HEARTBEAT_TIMEOUT, Format, TableSpec
from lakehand.spi import TableReference
from lakehand.store import migrate
from tests.s3_proxy import LIST, Proxy, s3_proxy
from tests.s3_server import KEY, REGION, s3_server
from tests.s3_tables import BUCKET, S3Tables, s3_tables

TABLES = 10_000
MOST = 2  # requests of a probe
# Dollars per request in us-east-1, as AWS lists them for S3 Standard.
PRICES = {LIST: 0.005 / 1000, "GET": 0.0004 / 1000, "HEAD": 0.0004 / 1000}
QUIET_PASSES, PAUSE = 5, 0.2
MONTH = timedelta(days=30)


def run(folder: Path, *, quick: bool) -> list[Figure]:
    """Counts are exact: there is no shorter way to them."""
    del quick
    with (
        s3_server() as server,
        s3_proxy(server.endpoint) as proxy,
        s3_tables(server, proxy.endpoint, folder / "tables") as tables,
    ):
        counts = {name: count(folder, name, tables, proxy) for name in tables.references()}
    show(counts)
    return [figure for name, found in counts.items() for figure in figures(name, found)]


def count(folder: Path, name: str, tables: S3Tables, proxy: Proxy) -> dict[str, Counter[str]]:
    """Each in a service of its own, which knows nothing yet."""
    print_line(f"requests: {name}")
    home = folder / f"home-{name}"
    url = f"sqlite:///{folder / f'{name}.db'}"
    migrate.upgrade(url)
    service = build(settings(home, url, tables))
    try:
        register(service, name, tables.references()[name])
        return counted(service, name, tables, proxy, url)
    finally:
        service.stop()


def settings(home: Path, url: str, tables: S3Tables) -> Settings:
    catalog = tables.catalog()
    jdbc = CatalogSettings(type="jdbc", properties=dict(catalog.properties), sync=False)
    s3 = S3Settings(
        endpoint=tables.endpoint, region=REGION, access_key_id=SecretStr(KEY), secret_access_key=SecretStr(KEY)
    )
    return Settings(
        home=home, database=SecretStr(url), warehouses=[f"s3://{BUCKET}"], catalogs={"central": jdbc},
        storage=StorageSettings(s3=s3),
    )  # fmt: skip


def register(service: Service, name: str, reference: TableReference) -> None:
    kind = Format(name.partition("-")[0])
    spec = TableSpec(
        location=reference.location, format=kind, action_types=frozenset(service.plugins.actions_of(kind)),
        catalog=reference.catalog.name if reference.catalog else "", db_name=reference.db_name,
        table_name=reference.table_name or name,
    )  # fmt: skip
    service.store.tables.add(spec, now=service.store.clock.now())


def counted(service: Service, name: str, tables: S3Tables, proxy: Proxy, url: str) -> dict[str, Counter[str]]:
    reference = tables.references()[name]
    reader = service.plugins.formats[Format(name.partition("-")[0])]
    with proxy.counting() as first:
        settle(service, proxy)
    with proxy.counting() as unchanged:
        reader.probe(reference)
    make_due(url)
    with proxy.counting() as at_rest:
        settle(service, proxy)
    tables.commit(name)
    with proxy.counting() as changed:
        reader.probe(reference)
    make_due(url)
    with proxy.counting() as evaluation:
        settle(service, proxy)
    return {
        "first evaluation": first, "probe, unchanged": unchanged, "heartbeat, unchanged": at_rest,
        "probe, changed": changed, "evaluation, changed": evaluation,
    }  # fmt: skip


def settle(service: Service, proxy: Proxy) -> None:
    """Until no pass asks for anything: evaluations go on in pools while a pass returns."""
    quiet = 0
    while quiet < QUIET_PASSES:
        before = len(proxy.requests)
        run_pass(service)
        time.sleep(PAUSE)
        quiet = quiet + 1 if len(proxy.requests) == before else 0


def figures(name: str, found: dict[str, Counter[str]]) -> list[Figure]:
    bounded = ("probe, unchanged", "probe, changed", "heartbeat, unchanged")
    counts = [
        Figure(
            bench="requests",
            name=f"{name}: {what}",
            value=float(one.total()),
            at_most=MOST if what in bounded else None,
        )
        for what, one in found.items()
    ]
    at_rest = found["heartbeat, unchanged"]
    probes = TABLES * (timedelta(minutes=1) / HEARTBEAT_TIMEOUT)
    price = sum(number * PRICES[kind] for kind, number in at_rest.items()) * TABLES * (MONTH / HEARTBEAT_TIMEOUT)
    return [
        *counts,
        Figure(bench="requests", name=f"{name}: {TABLES} tables at rest", value=at_rest.total() * probes, unit="/min"),
        Figure(bench="requests", name=f"{name}: {TABLES} tables at rest, S3 list price", value=price, unit="$/month"),
    ]


def show(counts: dict[str, dict[str, Counter[str]]]) -> None:
    """By kind, because a listing is twelve times as dear."""
    kinds = list(next(iter(counts.values())))
    table = Table("table", *kinds, title="Requests by kind")
    for name, found in counts.items():
        table.add_row(name, *(", ".join(f"{n} {kind}" for kind, n in sorted(found[what].items())) for what in kinds))
    console.print(table)
