# SPDX-License-Identifier: Apache-2.0
"""Lance tables that lead out of themselves while an index is optimised: by links, base paths, and other tables."""

import shutil
from collections.abc import Callable
from pathlib import Path

import lance
import pytest

from lakehand.jobs.boundary import OutsideTable
from lakehand.spi import Operation
from lakehand.testing.harness import PluginHarness
from tests import lance_tables
from tests.attacks.scene import fingerprint, make_old
from tests.attacks.test_lance_paths import name_base, nothing_changes, stopped, swap_content
from tests.formats.lance.runtime import harness
from tests.jobs.lance.meddling import execute_here

ACTION = "optimize-indices"


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    path = lance_tables.make_table(tmp_path / "victim", fragments=2)
    make_old(path)
    return path


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """An index that misses some rows."""
    path = lance_tables.make_table(tmp_path / "lake" / "t", fragments=3)
    return with_index(path)


def with_index(path: Path) -> Path:
    lance.dataset(str(path)).create_scalar_index("id", "BTREE")
    lance_tables.append(path, 1000)
    return path


def admitted(table: Path) -> tuple[PluginHarness, Operation]:
    subject = harness(table)
    return subject, subject.admitted(subject.asked(ACTION))


@pytest.mark.parametrize("inside", ["data", "_indices", "_versions/more", "more"])
def test_a_link_is_named_and_not_followed(table: Path, victim: Path, inside: str) -> None:
    subject, operation = admitted(table)
    if (table / inside).exists():
        shutil.move(table / inside, victim / "taken")
        victim = victim / "taken"
    (table / inside).symlink_to(victim)
    with nothing_changes(table):
        assert f"{table / inside} is a link to {victim}" in stopped(subject, operation)


def test_a_column_in_a_foreign_base_path_is_not_read_into_an_index(tmp_path: Path, victim: Path) -> None:
    path = lance_tables.make_table(tmp_path / "lake" / "t", fragments=3)
    file = name_base(path, victim)
    with_index(path)
    with nothing_changes(path):
        said = stopped(*admitted(path))
    assert f"names 1 files outside of {path}, not ours to rewrite: {file}" in said


def test_another_table_in_the_same_folder_is_not_worked_on(table: Path, tmp_path: Path) -> None:
    other = with_index(lance_tables.make_table(tmp_path / "other", fragments=3))
    subject, operation = admitted(table)
    swap_content(table, other)()
    with nothing_changes(table):
        assert f"another table is at {table} now" in stopped(subject, operation)


def test_a_table_whose_commits_clean_up_is_left_alone_above_another_one(table: Path, victim: Path) -> None:
    lance.dataset(str(table)).update_config({"lance.auto_cleanup.interval": "1", "lance.auto_cleanup.older_than": "1d"})
    shutil.copytree(victim, table / "data" / "in")
    make_old(table / "data" / "in")
    with nothing_changes(table):
        assert f"a lance table lies below this one, at {table}/data/in " in stopped(*admitted(table))


ATTACKS: dict[str, tuple[Callable[[Path, Path], object], str]] = {
    "link": (lambda table, victim: (table / "more").symlink_to(victim), "is a link to"),
    "folder": (
        lambda table, victim: (table.rename(victim / "moved"), shutil.copytree(victim, table)),
        "another folder",
    ),
    "content": (lambda table, victim: swap_content(table, victim)(), "another table is at"),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_happens_in_the_middle_is_seen_before_it_commits(table: Path, victim: Path, attack: str) -> None:
    act, said = ATTACKS[attack]
    _, operation = admitted(table)
    seen: dict[str, str] = {}

    def meddle() -> None:
        act(table, victim)
        seen.update(fingerprint(table.parent.parent))

    with pytest.raises(OutsideTable, match=said):
        execute_here(operation, "optimising", meddle)
    assert fingerprint(table.parent.parent) == seen
