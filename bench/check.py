# SPDX-License-Identifier: Apache-2.0
"""How long ``lakehand check`` takes: beside the libraries' own listings, as a whole command, and on many tables."""

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median

from bench.check_tables import Subject, subjects
from bench.mixed_tables import MixedLake, spoiled_iceberg
from bench.report import Figure, print_line
from lakehand.domain.tables import Format, TableReference
from lakehand.local.check import CheckedTable, TableChecker
from lakehand.local.discovery import DiscoveredTable
from lakehand.local.reader import reader_of

FILES, TABLES = 1000, 1000
SAME = ("files", "bytes", "snapshots", "histogram")
COMMAND = (sys.executable, "-m", "lakehand.cli", "check")


def run(folder: Path, *, quick: bool) -> list[Figure]:
    files, tables, rounds = (100, 60, 3) if quick else (FILES, TABLES, 15)
    print_line(f"check: making a table of {files} files of each format")
    figures: list[Figure] = []
    for subject in subjects(folder / "big", files):
        figures += compare(subject, files, rounds)
    print_line(f"check: making {tables} tables under one folder")
    MixedLake(folder=folder / "many", template=spoiled_iceberg(folder / "shared")).make(tables)
    return figures + many(folder / "many", tables)


def compare(subject: Subject, files: int, rounds: int) -> list[Figure]:
    """Ours and theirs in turns, so that whatever else the machine does hits both."""
    theirs = subject.counted()
    checked = look(subject)
    assert not checked.problem, checked.problem
    assert {name: checked.numbers[name] for name in SAME} == {name: theirs[name] for name in SAME}, subject.format
    pairs = [(look(subject).seconds, seconds(subject.counted)) for _ in range(rounds)]
    ours, their = (median(side) for side in zip(*pairs, strict=True))
    whole = median(seconds(lambda: command(subject.path)) for _ in range(max(rounds // 5, 1)))
    subject_name = f"{subject.format}, {files} files"
    return [
        Figure(bench="check", name=f"{subject_name}: read, all decisions included", value=ours * 1000, unit="ms"),
        Figure(bench="check", name=f"{subject_name}: listed by {subject.library}", value=their * 1000, unit="ms"),
        Figure(bench="check", name=f"{subject_name}: reading / listing", value=ours / their, at_most=3),
        Figure(bench="check", name=f"{subject_name}: the whole command", value=whole, unit="s", at_most=1),
    ]


def look(subject: Subject) -> CheckedTable:
    """With plugins that have seen nothing before. Opening them is not part of its seconds: a command does it once."""
    found = DiscoveredTable(reference=TableReference(location=str(subject.path)), format=Format(subject.format))
    return TableChecker(plugins=reader_of({}).plugins).check(found)


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def command(path: Path) -> None:
    subprocess.run([*COMMAND, str(path), "--json"], check=True, stdout=subprocess.DEVNULL)


def many(folder: Path, tables: int) -> list[Figure]:
    """Results come one by one, on a pipe as on a terminal."""
    began = time.perf_counter()
    with subprocess.Popen([*COMMAND, str(folder), "--json"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        moments = [time.perf_counter() - began for _ in process.stdout]
    assert (process.returncode, len(moments)) == (0, tables)
    return [
        Figure(bench="check", name=f"{tables} tables under one folder", value=moments[-1], unit="s"),
        Figure(bench="check", name="of these, per second", value=tables / moments[-1], unit="/s"),
        Figure(bench="check", name="first result after", value=moments[0], unit="s", at_most=1),
        Figure(bench="check", name="longest wait for the next result", value=longest(moments), unit="s"),
    ]


def longest(moments: Sequence[float]) -> float:
    return max((later - earlier for earlier, later in pairwise(moments)), default=0.0)
