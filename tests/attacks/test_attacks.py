# SPDX-License-Identifier: Apache-2.0
"""Each action of each format, attacked: whatever leads out of its table stops it, is named, and nothing has changed.

The attacks by paths in the metadata are a format's own: ``test_FORMAT_paths.py``. Those on object stores: ``test_s3.py``.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehand.jobs.boundary import OutsideTable
from lakehand.spi import Action, Format, TableProcess
from tests import delta_tables, hudi_tables, iceberg_tables, lance_tables
from tests.attacks.scene import PLUGINS, Scene, fingerprint, linked, make_old, nested
from tests.e2e.every_action import NEEDS, Need, Spoiler
from tests.paimon_tables import Lake

pytestmark = [pytest.mark.spark]

PAIRS = {f"{need.format}-{action}": (need, action) for need in NEEDS if not need.name for action in need.actions}
# Actions that list the table's folders, and so could take another table's files for theirs. The rest follows the
# table's own metadata: a table below it is never seen.
LISTING = frozenset(
    {"hudi-compaction", "hudi-clustering", "hudi-clean", "iceberg-remove-orphans", "delta-vacuum"}
    | {"paimon-remove-orphans", "lance-clean-versions"}
)
FORMATS = ("hudi", "iceberg", "delta", "paimon", "lance")


def test_no_action_is_left_out() -> None:
    supported = {
        f"{name}-{action}"
        for name, (_, factory) in PLUGINS.items()
        for action in factory().supported_actions()[Format(name)]
    }
    assert supported == set(PAIRS)


class Scenes:
    """Each table is made once: an attack that is warded off leaves it as it was, for the next one."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.outside = spark, folder / "outside"
        self.spoiler = Spoiler(spark, folder / "lake")
        self.made: dict[Need, Path] = {}

    def get(self, pair: str) -> Scene:
        need, action = PAIRS[pair]
        if need not in self.made:
            self.made[need] = self.spoiler.make(need)
        return Scene(spark=self.spark, need=need, action=action, table=self.made[need], outside=self.outside)


@pytest.fixture(scope="module")
def scenes(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Scenes:
    folder = tmp_path_factory.mktemp("attacks")
    (folder / "lake").mkdir()
    victims = folder / "outside" / "victims"
    victims.mkdir(parents=True)
    for name in ("part-00000-1.c000.snappy.parquet", "data-1.parquet", "1.lance", "important.txt"):
        (victims / name).write_text("somebody else's")
    make_old(folder / "outside")
    return Scenes(spark, folder)


@pytest.fixture(scope="module")
def inner_tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A small real table of each format, to be copied below another one."""
    folder = tmp_path_factory.mktemp("inner")
    tables = {name: folder / name for name in FORMATS}
    hudi_tables.make_table(spark, tables["hudi"], table_type=hudi_tables.COPY_ON_WRITE, commits=1)
    warehouse = iceberg_tables.open_warehouse(spark, folder)
    warehouse.create(tables["iceberg"], partitioned=False)
    warehouse.append(tables["iceberg"], files=1, rows=10)
    delta_tables.make_table(spark, tables["delta"], commits=1)
    Lake(spark, folder / "lake").create("inner")
    Lake(spark, folder / "lake").append("inner", 0, 10, files=1)
    tables["paimon"] = folder / "lake" / "shop.db" / "inner"
    lance_tables.make_table(tables["lance"])
    return tables


@contextmanager
def nothing_changes(scene: Scene) -> Iterator[None]:
    """Neither outside nor in the table, to the last byte."""
    top = scene.outside.parent
    before, facts = fingerprint(top), scene.facts()
    yield
    assert fingerprint(top) == before
    assert scene.facts() == facts


def stopped(scene: Scene, meddle: Callable[[], object] = lambda: None, location: Path | None = None) -> str:
    """What the job says; the attack happens before the admission, or by ``meddle`` right after it."""
    rehearsal = scene.rehearsal(location)
    operation = scene.admitted(rehearsal)
    meddle()
    with pytest.raises(OutsideTable) as caught:
        rehearsal.execute(operation)
    return str(caught.value)


@pytest.mark.parametrize("inside", ["more", "data/more", "part.parquet"])
@pytest.mark.parametrize("pair", PAIRS)
def test_a_link_below_the_root_is_named_and_not_followed(scenes: Scenes, pair: str, inside: str) -> None:
    scene = scenes.get(pair)
    target = scene.outside / "victims" / ("important.txt" if inside.endswith(".parquet") else "")
    with linked(scene.table / inside, target), nothing_changes(scene):
        assert f"{scene.table / inside} is a link to {target}" in stopped(scene)


@pytest.mark.parametrize("pair", PAIRS)
def test_a_link_that_is_swapped_after_the_admission_leads_nowhere(scenes: Scenes, pair: str) -> None:
    scene = scenes.get(pair)
    link = scene.outside.parent / "lake" / "by link"

    def swap() -> None:
        link.unlink()
        link.symlink_to(scene.outside)

    with linked(link, scene.table):
        facts = scene.facts()
        before = fingerprint(scene.outside.parent, but=link)
        assert f"{link} leads to {scene.outside} now" in stopped(scene, swap, location=link)
        assert fingerprint(scene.outside.parent, but=link) == {**before, "lake/by link": f"link to {scene.outside}"}
        assert scene.facts() == facts


@pytest.mark.parametrize("pair", PAIRS)
def test_another_folder_in_the_place_of_the_table_is_not_worked_on(scenes: Scenes, pair: str) -> None:
    scene = scenes.get(pair)
    moved = scene.outside / "moved"

    def swap() -> None:
        scene.table.rename(moved)
        scene.table.symlink_to(moved)

    try:
        assert f"leads to {moved} now" in stopped(scene, swap)
        assert scene.table.is_symlink()
    finally:
        scene.table.unlink()
        moved.rename(scene.table)


@pytest.mark.parametrize("inner", FORMATS)
@pytest.mark.parametrize("pair", sorted(LISTING))
def test_a_table_of_any_format_below_this_one_is_named_and_left_alone(
    scenes: Scenes, inner_tables: dict[str, Path], pair: str, inner: str
) -> None:
    scene = scenes.get(pair)
    with nested(scene.table / "inner", inner_tables[inner]), nothing_changes(scene):
        assert f"a {inner} table lies below this one, at {scene.table / 'inner'} " in stopped(scene)


@pytest.mark.parametrize("pair", PAIRS)
def test_without_an_attack_the_action_is_done_and_a_table_below_is_left_alone(
    scenes: Scenes, inner_tables: dict[str, Path], pair: str
) -> None:
    """The last of each table: the wards let honest work through."""
    scene = scenes.get(pair)
    inner = scene.table / ".keep"
    if pair not in LISTING:
        inner = scene.table / "inner"
        nested(inner, inner_tables["delta"]).__enter__()
    before = fingerprint(inner) if inner.exists() else {}
    outside, facts = fingerprint(scene.outside), scene.facts()
    rehearsal = scene.rehearsal()
    wanted = rehearsal.wants(scene.action)
    assert isinstance(wanted, TableProcess), wanted
    done = rehearsal.finish(rehearsal.stored(wanted))
    assert done.process.action == Action(scene.action)
    assert (fingerprint(inner) if inner.exists() else {}) == before
    assert (fingerprint(scene.outside), scene.facts()) == (outside, facts)
