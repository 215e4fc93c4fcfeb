# SPDX-License-Identifier: Apache-2.0
"""All tables of the demo, by format. Writers of all formats but Hudi tell nobody: Lakehand looks for itself."""

from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from lakehand.cli.demo.hudi_tables import orders, trips
from lakehand.cli.demo.tables import Commit, DemoTable

APPENDS, FILES, ROWS = 4, 25, 7_500
DELETE = Commit(operation="delete", where="id % 50 = 7")


def demo_tables(formats: Collection[str], *, url: str, lake: Path, locks: Path) -> list[DemoTable]:
    makers: Mapping[str, Callable[[], list[DemoTable]]] = {
        "hudi": lambda: [trips(url, lake / "trips"), orders(url, lake / "orders", locks)],
        "iceberg": lambda: [clicks(lake)],
        "delta": lambda: [payments(lake)],
        "paimon": lambda: [stock(lake)],
        "lance": lambda: [images(lake)],
    }
    return [table for name, make in makers.items() if name in formats for table in make()]


def clicks(lake: Path) -> DemoTable:
    damage = f"{APPENDS * FILES} small files, then a delete that leaves position deletes"
    options = {"format-version": "2", "write.delete.mode": "merge-on-read", "write.distribution-mode": "none"}
    return quiet(
        lake / "clicks", "iceberg", "rewrite-data", damage=damage, history=(*appends(), DELETE), options=options
    )


def payments(lake: Path) -> DemoTable:
    damage = f"{APPENDS * FILES} small files, then a delete that leaves deletion vectors"
    options = {"delta.enableDeletionVectors": "true"}
    history = (*appends(), DELETE)
    return quiet(lake / "payments", "delta", "optimize", damage=damage, history=history, options=options)


def stock(lake: Path) -> DemoTable:
    damage = f"{APPENDS * FILES} small files; its writers only write, so nobody compacts it"
    options = {"bucket": "-1", "write-only": "true"}
    return quiet(lake / "shop.db" / "stock", "paimon", "compact", damage=damage, history=appends(), options=options)


def images(lake: Path) -> DemoTable:
    damage = f"{APPENDS * FILES} small fragments, then a delete that leaves deletion files; written with pylance"
    history = (*appends(), DELETE)
    return quiet(lake / "images", "lance", "compact", damage=damage, history=history, options={})


def appends() -> tuple[Commit, ...]:
    return tuple(Commit(operation="append", first=n * ROWS, rows=ROWS, batch=n, parts=FILES) for n in range(APPENDS))


def quiet(
    location: Path, format: str, action: str, *, damage: str, history: tuple[Commit, ...], options: Mapping[str, str]
) -> DemoTable:
    return DemoTable(
        name=location.name,
        format=format,
        damage=f"{damage}. Nobody tells Lakehand",
        location=location,
        options=options,
        registration={"action_types": [action], "format": format},
        history=history,
        first=frozenset({action}),
        expected=frozenset({action}),
    )
