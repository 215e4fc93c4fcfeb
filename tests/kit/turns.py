# SPDX-License-Identifier: Apache-2.0
"""Which files' long tests CI runs this time: those near the last commits, and a share that changes with each commit.

What the last commits touched comes first, for half of the budget: the nearest by imports, and of those the shortest.
The rest of the budget is a turn: all files are divided into turns of about the same length, and the number of commits
says whose turn it is, so that as many commits in a row as there are turns run everything.
"""

import json
import math
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from grimp import ImportGraph, build_graph

from tests.kit.tiers import has_long_tests

ROOT = Path(__file__).parents[2]
SECONDS = ROOT / "tests" / "long_seconds.json"  # file → seconds of its long tests, measured by make test-all
UNKNOWN = 60.0  # seconds of a file that was not measured yet
BUDGET = 1200.0  # seconds of tests in one run of CI, divided among the processes that run them
RECENT = 86_400  # seconds before the last commit: the commits since then count as the last ones
# What tests reach without importing it, because they start it as a program: the jobs and the command.
STARTED = {
    "tests.browser": ("lakehand.app", "lakehand.cli"),
    "tests.cli": ("lakehand.cli",),
    "tests.cluster": ("lakehand.engines", "lakehand.jobs"),
    "tests.conformance": ("lakehand.app", "lakehand.cli", "lakehand.engines", "lakehand.formats", "lakehand.jobs"),
    "tests.demo": ("lakehand.demo",),
    "tests.e2e": ("lakehand.app", "lakehand.cli", "lakehand.engines", "lakehand.formats", "lakehand.jobs"),
    "tests.engines": ("lakehand.jobs.driver",),
    "tests.rolling": ("lakehand.app", "lakehand.store"),
    **{f"tests.jobs.{name}": (f"lakehand.jobs.{name}",) for name in ("hudi", "iceberg", "delta", "paimon", "lance")},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The files whose long tests run, and why."""

    touched: tuple[str, ...]
    turn: tuple[str, ...]
    number: int  # of the turn, from 1
    turns: int

    @property
    def files(self) -> frozenset[str]:
        return frozenset((*self.touched, *self.turn))

    def __str__(self) -> str:
        touched = ", ".join(self.touched) or "none"
        return f"touched by the last commits: {touched}; turn {self.number} of {self.turns}: {', '.join(self.turn)}"


def choose(seconds: Mapping[str, float], distances: Mapping[str, int], commits: int, budget: float = BUDGET) -> Choice:
    """``distances``: how many imports away from a change a file is; without those that no change can reach."""
    near = sorted(set(seconds) & set(distances), key=lambda name: (distances[name], seconds[name], name))
    touched = within(near, seconds, budget / 2)
    shares = turns_of(seconds, budget / 2)
    number = commits % len(shares)
    return Choice(touched=tuple(touched), turn=tuple(shares[number]), number=number + 1, turns=len(shares))


def within(names: Iterable[str], seconds: Mapping[str, float], budget: float) -> list[str]:
    """The first ones that fit; one that is too long by itself never keeps shorter ones from their place."""
    found: list[str] = []
    for name in names:
        if seconds[name] <= budget:
            budget -= seconds[name]
            found.append(name)
    return found


def turns_of(seconds: Mapping[str, float], budget: float) -> list[list[str]]:
    """All files, in as few turns as the budget asks for: the longest file first, each to the shortest turn so far."""
    count = min(len(seconds), math.ceil(sum(seconds.values()) / budget)) or 1
    shares: list[list[str]] = [[] for _ in range(count)]
    lengths = [0.0] * count
    for name in sorted(seconds, key=lambda name: (-seconds[name], name)):
        shortest = lengths.index(min(lengths))
        shares[shortest].append(name)
        lengths[shortest] += seconds[name]
    return [sorted(share) for share in shares]


def distances_of(tests: Iterable[str], changed: Iterable[str], graph: ImportGraph) -> dict[str, int]:
    """Imports between each test file and the nearest changed module; test files that reach none are left out."""
    modules = {module_of(name) for name in changed}
    return {name: steps for name in tests if (steps := steps_to(modules, module_of(name), graph)) is not None}


def steps_to(changed: Set[str], test: str, graph: ImportGraph) -> int | None:
    """Breadth first, so that the first one found is the nearest."""
    reached, seen, steps = {test}, {test}, 0
    while reached:
        if not changed.isdisjoint(reached):
            return steps
        reached = {one for module in reached for one in imported_by(module, graph)} - seen
        seen |= reached
        steps += 1
    return None


def imported_by(module: str, graph: ImportGraph) -> Iterator[str]:
    """With the programs that a test file starts."""
    if module in graph.modules:
        yield from graph.find_modules_directly_imported_by(module)
    for tests, packages in STARTED.items():
        if is_in(module, tests):
            yield from (one for package in packages for one in graph.modules if is_in(one, package))


def is_in(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def module_of(file: str) -> str:
    return file.removeprefix("src/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def files_with_long_tests(root: Path = ROOT) -> list[str]:
    found = root.joinpath("tests").rglob("test_*.py")
    return sorted(str(file.relative_to(root)) for file in found if has_long_tests(file))


def read_seconds(files: Sequence[str], record: Path = SECONDS) -> dict[str, float]:
    known = json.loads(record.read_text(encoding="utf-8"))
    return {name: float(known.get(name, UNKNOWN)) for name in files}


def git(*words: str) -> list[str]:
    """The lines of its answer; none where this is not a clone."""
    answer = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return answer.stdout.split("\n") if answer.returncode == 0 else []


def recently_changed() -> list[str]:
    [last, *_] = git("log", "-1", "--format=%ct") or ["0"]
    names = git("log", f"--since={int(last) - RECENT}", "--name-only", "--format=")
    return sorted({name for name in names if name.endswith(".py")})


def choice_of_this_commit() -> Choice:
    files = files_with_long_tests()
    graph = build_graph("lakehand", "tests")
    [count, *_] = git("rev-list", "--count", "HEAD") or ["0"]
    return choose(read_seconds(files), distances_of(files, recently_changed(), graph), int(count or 0))
