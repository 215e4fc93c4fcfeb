# SPDX-License-Identifier: Apache-2.0
"""Every action that deletes says who may still read its files, and the tests that it names exist. No Spark."""

import ast
import re
from collections.abc import Iterator, Set
from functools import cache
from pathlib import Path

import pytest

from tests.attacks.attacks import ATTACKS
from tests.attacks.every_job import JOBS
from tests.attacks.readers import BY_ALL, DELETE_NOTHING, KINDS, READERS, Exposed, Protected, Untested
from tests.attacks.test_every_job import FACTORIES

ROOT = Path(__file__).parents[2]
SECTION = (ROOT / "docs" / "formats.md").read_text().partition("### What may still be read")[2].partition("\n## ")[0]
NUMBERED = {int(number): name for number, name in re.findall(r"^(\d+)\. `(test_\w+)` in", SECTION, re.MULTILINE)}


def test_every_action_of_every_format_either_deletes_nothing_or_has_a_row() -> None:
    assert set(READERS) | DELETE_NOTHING == set(JOBS)
    assert set(READERS) & DELETE_NOTHING == set()
    assert all(set(row) == set(KINDS) for row in READERS.values())


def test_every_action_with_a_dry_run_deletes() -> None:
    """A dry run shows what would be deleted: such an action cannot be among those that delete nothing."""
    for factory in FACTORIES:
        for of in factory().supported_actions():
            assert {f"{of}-{action}" for action in factory().dry_run_actions()} <= set(READERS)


def named_tests() -> Iterator[str]:
    for cell in (*BY_ALL.values(), *(cell for row in READERS.values() for cell in row.values())):
        if isinstance(cell, Protected):
            assert cell.tests
            yield from cell.tests


@pytest.mark.parametrize("test", sorted(set(named_tests())))
def test_each_named_test_exists(test: str) -> None:
    file, _, name = test.partition("::")

    assert name in functions_of(ROOT / file)


def test_every_other_cell_says_why() -> None:
    others = [cell for row in READERS.values() for cell in row.values() if isinstance(cell, Untested | Exposed)]

    assert all(cell.why for cell in others)


@pytest.mark.parametrize("pair", READERS)
def test_the_table_of_the_documents_says_the_same(pair: str) -> None:
    """The same tests by their numbers, and "no" in the columns where nobody protects what may be read."""
    columns, row = documented(pair), READERS[pair]
    numbers = {int(number) for column in columns for group in re.findall(r"\(([\d, ]+)\)", column)
               for number in group.split(",")}  # fmt: skip
    cells = [cell.tests for cell in row.values() if isinstance(cell, Protected)]
    noted = {word for cell in row.values() if isinstance(cell, Exposed) for word in re.findall(r"test_\w+", cell.why)}

    assert {NUMBERED[number] for number in numbers} == {
        test.partition("::")[2] for one in cells for test in one
    } | noted
    assert ["**no" in column for column in columns] == [isinstance(cell, Exposed) for cell in row.values()]


def test_a_link_stops_every_action_that_deletes() -> None:
    links = [attack for name, attack in ATTACKS.items() if name.startswith("a link")]

    assert links
    assert all(attack.meets(pair) for attack in links for pair in READERS)


def documented(pair: str) -> list[str]:
    of, _, action = pair.partition("-")
    [line] = re.findall(rf"^\| {of.capitalize()} `{action}`[^|]*\|(.*)\|$", SECTION, re.MULTILINE)
    return [column.strip() for column in line.split("|")]


@cache
def functions_of(file: Path) -> Set[str]:
    return {one.name for one in ast.walk(ast.parse(file.read_text())) if isinstance(one, ast.FunctionDef)}
