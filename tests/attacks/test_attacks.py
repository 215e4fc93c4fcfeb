# SPDX-License-Identifier: Apache-2.0
"""Each action of each format, attacked: whatever leads out of its table stops it, is named, and nothing has changed.

Attacks by paths in the metadata are a format's own: ``test_FORMAT_paths.py``; those on object stores: ``test_s3.py``.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lakehand.jobs.boundary import OutsideTable
from lakehand.spi import Format
from tests.attacks.scene import (
    FORMATS,
    LISTING,
    PAIRS,
    PLUGINS,
    Scene,
    Scenes,
    fingerprint,
    linked,
    nested,
    some_always,
)

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")]


def test_no_action_is_left_out() -> None:
    supported = {
        f"{name}-{action}"
        for name, (_, factory) in PLUGINS.items()
        for action in factory().supported_actions()[Format(name)]
    }
    assert supported == set(PAIRS)


@contextmanager
def nothing_changes(scene: Scene) -> Iterator[None]:
    """Neither outside nor in the table, to the last byte."""
    with no_byte_changes(scene):
        yield
    assert scene.facts() == scene.made_with


@contextmanager
def no_byte_changes(scene: Scene) -> Iterator[None]:
    top = scene.outside.parent
    before = fingerprint(top)
    yield
    assert fingerprint(top) == before


def stopped(scene: Scene, meddle: Callable[[], object] = lambda: None, location: Path | None = None) -> str:
    """The error of the job; the attack happens before the admission, or by ``meddle`` right after it."""
    harness = scene.harness(location)
    operation = scene.admitted(harness)
    meddle()
    with pytest.raises(OutsideTable) as caught:
        harness.execute(operation)
    return str(caught.value)


@pytest.mark.parametrize("inside", ["more", "data/more", "part.parquet"])
@pytest.mark.parametrize("pair", some_always(PAIRS))
def test_a_link_below_the_root_is_named_and_not_followed(scenes: Scenes, pair: str, inside: str) -> None:
    scene = scenes.get(pair)
    target = scene.outside / "victims" / ("important.txt" if inside.endswith(".parquet") else "")
    harness = scene.harness()
    operation = scene.admitted(harness)  # before: some readers do not even open a table with a link
    with linked(scene.table / inside, target), nothing_changes(scene), pytest.raises(OutsideTable) as caught:
        harness.execute(operation)
    assert f"{scene.table / inside} is a link to {target}" in str(caught.value)


@pytest.mark.parametrize("pair", some_always(PAIRS))
def test_a_link_that_is_swapped_after_the_admission_leads_nowhere(scenes: Scenes, pair: str) -> None:
    scene = scenes.get(pair)
    link = scene.outside.parent / "lake" / "by link"

    def swap() -> None:
        link.unlink()
        link.symlink_to(scene.outside)

    with linked(link, scene.table):
        before = fingerprint(scene.outside.parent, but=link)
        assert f"{link} leads to {scene.outside} now" in stopped(scene, swap, location=link)
        assert fingerprint(scene.outside.parent, but=link) == before
        assert scene.facts() == scene.made_with


@pytest.mark.parametrize("pair", some_always(PAIRS))
def test_another_folder_at_the_location_of_the_table_is_not_worked_on(scenes: Scenes, pair: str) -> None:
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
@pytest.mark.parametrize("pair", some_always(sorted(LISTING)))
def test_a_table_of_any_format_below_this_one_is_named_and_left_alone(
    scenes: Scenes, inner_tables: dict[str, Path], pair: str, inner: str
) -> None:
    scene = scenes.get(pair)
    with nested(scene.table / "inner", inner_tables[inner]), no_byte_changes(scene):
        assert f"a {inner} table lies below this one, at {scene.table / 'inner'} " in stopped(scene)
    # Only now: Hudi's reader lists folders, and takes older files of a nested table for the table's own.
    assert scene.facts() == scene.made_with
