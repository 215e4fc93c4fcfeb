# SPDX-License-Identifier: Apache-2.0
"""Commit events: how many per second beside the Hudi wire, and whether every change is acted on while it is killed."""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from bench.event_delivery import Delivery, Sizes, figure
from bench.load import EVENTS, FRESH, REPEATED, Load, Seen, drive
from bench.notify import CONNECTIONS, p99, rate
from bench.notify import register as register_paused
from bench.report import Figure, print_line
from bench.service import port_of, serving

BATCH = 100
KINDS = ((FRESH, 1), (EVENTS, 1), (EVENTS, BATCH), (REPEATED, 1))
NAMES = {
    (FRESH, 1): "wire, new plans",
    (REPEATED, 1): "wire, repeats",
    (EVENTS, 1): "events, one per request",
    (EVENTS, BATCH): f"events, {BATCH} per request",
}


def add_options(parser: ArgumentParser) -> None:
    options = parser.add_argument_group("commits")
    for name, default in asdict(Sizes()).items():
        options.add_argument(f"--{name}", type=type(default), default=None, help=f"default: {default}")


def sizes_of(wanted: Namespace, *, quick: bool) -> Sizes:
    given = {name: value for name in asdict(Sizes()) if (value := getattr(wanted, name, None)) is not None}
    small = {"events": 2000, "tables": 20, "seconds": 1.0, "rounds": 1} if quick else {}
    return Sizes(**{**small, **given})


def run(folder: Path, *, quick: bool, wanted: Namespace | None = None) -> list[Figure]:
    sizes = sizes_of(wanted or Namespace(), quick=quick)
    rates, delivery = folder / "rates", folder / "delivery"
    rates.mkdir()
    delivery.mkdir()
    return [*Rates(sizes=sizes).run(rates), *Delivery(sizes=sizes).run(delivery)]


@dataclass(kw_only=True)
class Rates:
    """Only the storing is measured: the tables are paused."""

    sizes: Sizes
    first: int = 0
    seen: dict[tuple[str, int], list[Seen]] = field(default_factory=lambda: {kind: [] for kind in KINDS})

    def run(self, folder: Path) -> Iterator[Figure]:
        lake = folder / "lake"
        lake.mkdir()
        with serving(folder / "home", lake, database=f"sqlite:///{folder / 'lakehand.db'}") as service:
            locations = register_paused(service, lake)
            for number in range(self.sizes.rounds):
                for kind in KINDS if number % 2 == 0 else reversed(KINDS):
                    self.load(kind, port_of(service), locations)
        yield from self.figures()

    def load(self, kind: tuple[str, int], port: int, locations: list[str]) -> None:
        load = Load(
            port=port, kind=kind[0], seconds=self.sizes.seconds, connections=CONNECTIONS, locations=locations,
            first=self.first, batch=kind[1],
        )  # fmt: skip
        seen = drive(load)
        if seen.not_stored:
            raise RuntimeError(f"{seen.not_stored} of {seen.answers} requests were not stored")
        self.first += seen.answers * kind[1]
        self.seen[kind].append(seen)
        print_line(f"commits: {NAMES[kind]}: {seen.rate * kind[1]:,.0f}/s, p99 {1000 * p99([seen]):.1f} ms")

    def figures(self) -> Iterator[Figure]:
        wire = rate(self.seen[FRESH, 1])
        for kind, seen in self.seen.items():
            yield figure(NAMES[kind], rate(seen) * kind[1], "/s")
            yield figure(f"{NAMES[kind]}, p99", 1000 * p99(seen), "ms")
            if kind[0] == EVENTS:
                yield figure(f"{NAMES[kind]} / wire, new plans", 100 * rate(seen) * kind[1] / wire, "%", at_least=100)
