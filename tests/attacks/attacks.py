# SPDX-License-Identifier: Apache-2.0
"""The attacks that exist for tables of every format. To add one, add a row to ``ATTACKS``, and nothing else.

``test_every_job.py`` tries each row on each job of each format, without Spark: the job must stop before it uses its
session. ``test_attacks.py`` tries each row on one real job of each format. Attacks by names and settings in the
metadata are a format's own: ``test_FORMAT_paths.py``; those that exist in buckets only: ``test_s3.py``.
"""

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.attacks.scene import FORMATS, make_old

METADATA = {"hudi": ".hoodie", "iceberg": "metadata", "delta": "_delta_log", "paimon": "snapshot", "lance": "_versions"}
# A file by which each format is known, as it is in the folder of a table.
MARKERS = {
    "hudi": ".hoodie/hoodie.properties",
    "iceberg": "metadata/v1.metadata.json",
    "delta": "_delta_log/00000000000000000000.json",
    "paimon": "schema/schema-0",
    "lance": "_versions/1.manifest",
}
# Actions that list the table's folders, and so could take another table's files for theirs. The rest follows the
# table's own metadata: a table below it is never seen.
LISTING = frozenset(
    {"hudi-archive", "hudi-clean", "hudi-clustering", "hudi-compaction", "hudi-indexing", "hudi-log-compaction"}
    | {"hudi-find-duplicates", "hudi-partition-ttl", "hudi-rollback-failed-writes"}
    | {"iceberg-remove-orphans", "delta-vacuum", "paimon-remove-orphans", "lance-clean-versions"}
)
PLAIN, BY_LINK = "registered where it is", "registered by a link"


@dataclass(frozen=True, kw_only=True)
class AttackedTable:
    """A lake with one table, and outside of it what belongs to others."""

    format: str
    table: Path  # where its folder is
    location: Path  # as it is registered: the same, or a link that leads there
    outside: Path

    @property
    def link(self) -> Path:
        """Where an attack puts a link, if the place in the table does not matter."""
        return self.table / "more"


@dataclass(frozen=True, kw_only=True)
class Attack:
    act: Callable[[AttackedTable], object]  # after the work was admitted
    said: str  # part of the error, with the fields of the place in braces
    on: tuple[str, ...] = (PLAIN, BY_LINK)  # how the table is registered
    listing: bool = False  # only the jobs that list folders must stop
    but: str = ""  # the format that this is not an attack on
    is_real: bool = False  # one of each kind is also tried with real jobs on Spark

    def meets(self, pair: str) -> bool:
        """Whether the job of this format and action must stop."""
        return (pair in LISTING or not self.listing) and format_of(pair) != self.but


def format_of(pair: str) -> str:
    """Of a format and an action, such as ``hudi-clean``."""
    return pair.partition("-")[0]


def link_to(target: str, place: AttackedTable, *, at: str = "more") -> None:
    """A link from the table to something below the top of the scene."""
    link = place.table / at.format(metadata=METADATA[place.format])
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(target.format(outside=place.outside, table=place.table))


def swap_link(place: AttackedTable) -> None:
    """To a folder of the same name: the whole path counts."""
    place.location.unlink()
    place.location.symlink_to(place.outside / place.table.name)
    (place.outside / place.table.name).mkdir()


def move_away(place: AttackedTable) -> Path:
    moved = place.outside / place.table.name
    place.table.rename(moved)
    return moved


def put_another_folder(place: AttackedTable) -> None:
    """With the same files: only its inode tells."""
    shutil.copytree(move_away(place), place.table, symlinks=True)


def put_a_link(place: AttackedTable) -> None:
    place.table.symlink_to(move_away(place))


def nest(inner: str, place: AttackedTable, *, at: str = "inner/") -> None:
    """A table of another format below this one, or in its folder; every file is old enough to be deleted."""
    for name in (MARKERS[inner], "data/part-0.parquet", "0.lance"):
        file = place.table / f"{at}{name}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("somebody else's")
        make_old(file.parent)


ATTACKS: Mapping[str, Attack] = {
    "a link to a folder": Attack(
        act=partial(link_to, "{outside}"), said="{table}/more is a link to {outside}", is_real=True
    ),
    "a link to a file": Attack(
        act=partial(link_to, "{outside}/victim.parquet", at="part.parquet"),
        said="{table}/part.parquet is a link to {outside}/victim.parquet",
    ),
    "a link deep below": Attack(
        act=partial(link_to, "{outside}", at="data/p=1/more"), said="{table}/data/p=1/more is a link to {outside}"
    ),
    "a link beside the metadata": Attack(
        act=partial(link_to, "{outside}", at="{metadata}/more"), said="/more is a link to {outside}"
    ),
    "a hidden link": Attack(act=partial(link_to, "{outside}", at=".more"), said="{table}/.more is a link to {outside}"),
    "a link to nowhere": Attack(act=partial(link_to, "/nowhere"), said="{table}/more is a link to /nowhere"),
    "a link into the table": Attack(
        act=partial(link_to, "{table}/data"), said="{table}/more is a link to {table}/data"
    ),
    "a pipe": Attack(act=lambda place: os.mkfifo(place.link), said="{table}/more is neither a file nor a folder"),
    "the link of the registration leads elsewhere": Attack(
        act=swap_link, said="{location} leads to {outside}/trips now, and the work was admitted for {table}",
        on=(BY_LINK,), is_real=True,
    ),
    "a link in the place of the table": Attack(act=put_a_link, said="leads to {outside}/trips now"),
    "another folder in the place of the table": Attack(
        act=put_another_folder, said="{table} is another folder now", is_real=True
    ),
    "no folder in the place of the table": Attack(act=move_away, said="{table} is another folder now (gone)"),
    **{
        f"a table below, of {inner}": Attack(
            act=partial(nest, inner), said=f"a {inner} table lies below this one, at {{table}}/inner ", listing=True,
            is_real=inner == "delta",
        )
        for inner in FORMATS
    },
    **{
        f"a table in the same folder, of {inner}": Attack(
            act=partial(nest, inner, at=""), said=f"a {inner} table has the same folder as this ", listing=True,
            but=inner,
        )
        for inner in FORMATS
    },
}  # fmt: skip
