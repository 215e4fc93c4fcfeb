# SPDX-License-Identifier: Apache-2.0
"""What open pages of the dashboard cost: notifications per second with 50 browsers and without, in turns."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.load import FRESH, Load, drive
from bench.notify import CONNECTIONS, register
from bench.report import Figure, print_line
from bench.service import port_of, serving
from tests.kit.service import RunningService

BROWSERS = 50
WORDS = {True: f"{BROWSERS} browsers open", False: "no browser open"}


def run(folder: Path, *, quick: bool) -> list[Figure]:
    seconds, rounds = (2.0, 1) if quick else (10.0, 6)
    lake = folder / "lake"
    lake.mkdir()
    rates: dict[bool, list[float]] = {True: [], False: []}
    stored, fetched = 0, 0
    with serving(folder / "home", lake, database=f"sqlite:///{folder / 'lakehand.db'}") as service:
        locations = register(service, lake)
        for number in range(2 * rounds):
            is_watched = number % 4 in (1, 2)
            with browsers(service, BROWSERS if is_watched else 0) as pages:
                load = Load(
                    port=port_of(service), kind=FRESH, seconds=seconds, connections=CONNECTIONS, locations=locations,
                    first=stored,
                )  # fmt: skip
                seen = drive(load)
            stored += seen.answers
            fetched += sum(pages)
            rates[is_watched].append(seen.rate)
            print_line(f"watching: {WORDS[is_watched]}: {seen.rate:,.0f} notifications/s")
    return figures(rates, fetched)


def figures(rates: dict[bool, list[float]], fetched: int) -> list[Figure]:
    means = {is_watched: sum(found) / len(found) for is_watched, found in rates.items()}
    return [
        *(Figure(bench="watching", name=WORDS[key], value=mean, unit="/s") for key, mean in means.items()),
        Figure(bench="watching", name="pages fetched again", value=fetched),
        Figure(bench="watching", name="with / without", value=100 * means[True] / means[False], unit="%", at_least=90),
    ]


@contextmanager
def browsers(service: RunningService, count: int) -> Iterator[list[int]]:
    """Open pages; the list gets how many pages they fetched."""
    fetched: list[int] = []
    if not count:
        yield fetched
        return
    command = [sys.executable, "-m", "bench.browsers", service.url, str(count)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        yield fetched
        process.terminate()
        fetched.append(int(process.stdout.readline() or 0))
