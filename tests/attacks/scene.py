# SPDX-License-Identifier: Apache-2.0
"""Where attacks happen: a lake with a table that needs an action, and outside of it things that nobody may touch."""

import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehand.formats.delta import DeltaFormat, DeltaProcessFactory
from lakehand.formats.hudi import HudiFormat, HudiProcessFactory
from lakehand.formats.iceberg import IcebergFormat, IcebergProcessFactory
from lakehand.formats.lance import LanceFormat, LanceProcessFactory
from lakehand.formats.paimon import PaimonFormat, PaimonProcessFactory
from lakehand.spi import Format, Operation, ProcessFactory, Scheduling, TableFormat, TableProcess, TableSpec
from lakehand.testing.harness import PluginHarness
from tests.e2e.every_action import NEEDS, Need, Spoiler
from tests.kit.tiers import long_values

OLD = 10 * 86_400  # seconds: older than every retention that these tables are served with

PLUGINS: Mapping[str, tuple[Callable[[], TableFormat], Callable[[], ProcessFactory]]] = {
    "hudi": (HudiFormat, HudiProcessFactory),
    "iceberg": (IcebergFormat, IcebergProcessFactory),
    "delta": (DeltaFormat, DeltaProcessFactory),
    "paimon": (PaimonFormat, PaimonProcessFactory),
    "lance": (LanceFormat, LanceProcessFactory),
}


PAIRS = {f"{need.format}-{action}": (need, action) for need in NEEDS if not need.name for action in need.actions}
# Actions that list the table's folders, and so could take another table's files for theirs. The rest follows the
# table's own metadata: a table below it is never seen.
LISTING = frozenset(
    {"hudi-compaction", "hudi-clustering", "hudi-clean", "hudi-archive", "hudi-rollback-failed-writes"}
    | {"iceberg-remove-orphans", "delta-vacuum"}
    | {"hudi-log-compaction", "hudi-indexing", "hudi-partition-ttl"}
    | {"paimon-remove-orphans", "lance-clean-versions"}
)
FORMATS = ("hudi", "iceberg", "delta", "paimon", "lance")
# Attacked in every run of the tests: some of each format. The rest is attacked in CI, or when somebody names the file.
ALWAYS = (
    "hudi-compaction", "hudi-clean", "iceberg-remove-orphans", "iceberg-rewrite-data", "delta-vacuum",
    "paimon-remove-orphans", "paimon-expire-snapshots", "lance-clean-versions", "lance-compact",
)  # fmt: skip


def some_always(pairs: Iterable[str]) -> list[Any]:
    return [one for pair in pairs for one in ([pair] if pair in ALWAYS else long_values(pair))]


@dataclass(frozen=True, kw_only=True)
class Scene:
    """One table that needs one action. ``outside`` has victims whose names look like files of the table."""

    spark: SparkSession
    need: Need
    action: str
    table: Path
    outside: Path
    made_with: object  # what a reader saw when the table was made

    def harness(self, location: Path | None = None) -> PluginHarness:
        reader, factory = PLUGINS[self.need.format]
        values = dict(self.need.values)
        spec = TableSpec(
            location=str(location or self.table), format=Format(self.need.format), table_name=self.table.name,
            properties=values.get("properties", {}), scheduling=Scheduling(values.get("scheduling", "writer")),
        )  # fmt: skip
        return PluginHarness(factory=factory(), format=reader(), spec=spec, session=self.spark)

    def admitted(self, harness: PluginHarness) -> Operation:
        wanted = harness.wants(self.action)
        assert isinstance(wanted, TableProcess), wanted
        return harness.admitted(harness.stored(wanted))

    def facts(self) -> object:
        return self.need.facts(self.spark, self.table)


class Scenes:
    """Each table is made once: an attack that fails leaves it as it was, for the next one."""

    def __init__(self, spark: SparkSession, folder: Path, factory: pytest.TempPathFactory) -> None:
        self.spark, self.outside = spark, folder / "outside"
        self.spoiler = Spoiler(spark, folder / "lake", factory)
        self.made: dict[Need, tuple[Path, object]] = {}

    def get(self, pair: str) -> Scene:
        need, action = PAIRS[pair]
        if need not in self.made:
            table = self.spoiler.make(need)
            self.made[need] = table, need.facts(self.spark, table)
        table, facts = self.made[need]
        return Scene(
            spark=self.spark, need=need, action=action, table=table, outside=self.outside, made_with=facts
        )  # fmt: skip


def fingerprint(folder: Path, *, but: Path | None = None) -> dict[str, str]:
    """Every file, folder and link below a folder, with what it holds and when it was changed."""
    found: dict[str, str] = {}
    for root, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if Path(root, name) != but]
        for name in (*folders, *files):
            path = Path(root, name)
            found[str(path.relative_to(folder))] = content_of(path)
    return found


def content_of(path: Path) -> str:
    if path.is_symlink():
        return f"link to {path.readlink()}"
    if path.is_dir():
        return "folder"
    return f"{hashlib.sha256(path.read_bytes()).hexdigest()} {path.stat().st_mtime_ns}"


def make_old(folder: Path) -> None:
    then = time.time() - OLD
    for path in (*folder.rglob("*"), folder):
        os.utime(path, (then, then), follow_symlinks=False)


@contextmanager
def linked(link: Path, target: Path) -> Iterator[None]:
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(target)
    try:
        yield
    finally:
        link.unlink()


@contextmanager
def nested(inner: Path, template: Path) -> Iterator[None]:
    """A table below another one; every file of it is old enough to be deleted."""
    shutil.copytree(template, inner)
    make_old(inner)
    try:
        yield
    finally:
        shutil.rmtree(inner)
