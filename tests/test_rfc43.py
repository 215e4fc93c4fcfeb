# SPDX-License-Identifier: Apache-2.0
"""Holds docs/rfc-43.md to the code: every statement of the RFC has a row, and what a row names exists."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from lakehand.formats.hudi import HudiProcessFactory
from tests.test_docs import ROOT, SETTINGS, command_lines, exists, metrics

PAGE = ROOT / "docs" / "rfc-43.md"
SOURCE = ROOT / "src" / "lakehand"
STATEMENTS = Path(__file__).with_name("rfc43_statements.txt")
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
SPAN = re.compile(r"`([^`\n]+)`")
BOLD = re.compile(r"\*\*(differs|missing|missing in Hudi|not yet|not ours|out of scope)\*\*", re.IGNORECASE)
NO_EVIDENCE = ("missing", "not ours", "out of scope", "not yet")  # words of rows that may name no test
FILE = re.compile(r"(?:[\w.-]+/)*[\w.-]+\.(?:py|proto|md|txt)|tests(?:/\w+)*")


class Row(NamedTuple):
    number: str
    statement: str
    where: str
    evidence: str

    @property
    def words(self) -> list[str]:
        return [word.lower() for word in BOLD.findall(self.where)]


def stated() -> dict[str, str]:
    """The statements by their numbers, in words of our own."""
    lines = STATEMENTS.read_text(encoding="utf-8").splitlines()
    pairs = [line.split("\t") for line in lines]
    assert len({number for number, _ in pairs}) == len(lines), "a number is used twice"
    return dict(pairs)


@cache
def page() -> str:
    """Without comments: what waits for something else names nothing yet."""
    return COMMENT.sub("", PAGE.read_text(encoding="utf-8"))


@cache
def rows() -> list[Row]:
    lines = page().partition("\n## Each statement\n")[2].splitlines()
    cells = ([cell.strip() for cell in line.strip().strip("|").split(" | ")] for line in lines if line.startswith("| "))
    return [Row(*row) for row in (one + [""] * (4 - len(one)) for one in cells) if re.fullmatch(r"[VA]?\d+", row[0])]


def test_every_statement_has_a_row_in_its_words_and_every_row_is_a_statement() -> None:
    assert [(row.number, row.statement) for row in rows()] == list(stated().items())


def test_the_statements_are_counted_without_a_gap() -> None:
    numbers = list(stated())
    for letter, many in (("", 165), ("V", 21), ("A", 49)):
        own = [number for number in numbers if re.fullmatch(rf"{letter}\d+", number)]
        assert own == [f"{letter}{count}" for count in range(1, many + 1)]


def test_each_row_names_a_test_or_a_setting_or_says_why_not() -> None:
    linked = {row.number for row in rows() if re.search(r"\]\([\w/.-]+(#[\w-]+)?\)", row.where) and not row.evidence}
    bare = [row.number for row in rows() if not row.evidence and not set(row.words) & set(NO_EVIDENCE)]
    assert set(bare) <= linked, "these rows name nothing that shows them"
    assert len(linked) <= 2, "a link alone is for questions about words"


def evidence() -> Iterator[tuple[str, str]]:
    for row in rows():
        for span in SPAN.findall(row.evidence):
            yield row.number, span


@cache
def text_of(file: str) -> str:
    return (ROOT / file).read_text(encoding="utf-8") if (ROOT / file).is_file() else ""


def is_known(span: str) -> bool:
    """A test, a file of tests, a setting, or a metric."""
    file, colons, name = span.partition("::")
    if span.startswith("tests/"):
        return f"def {name}(" in text_of(file) if colons else (ROOT / file).exists()
    return span in SETTINGS or span in {row.key for row in HudiProcessFactory().settings.rows} or is_metric(span)


def is_metric(span: str) -> bool:
    return re.sub(r"_total$", "", span) in metrics()


def test_every_test_setting_and_metric_that_shows_a_row_exists() -> None:
    found = list(evidence())
    assert len(found) > 200
    assert [one for one in found if not is_known(one[1])] == []


def named_files() -> list[str]:
    spans = SPAN.findall(page())
    return [span for span in spans if FILE.fullmatch(span) or (span.count("/") == 1 and (SOURCE / span).exists())]


def test_every_file_that_is_named_exists() -> None:
    found = named_files()
    assert len(found) > 40
    assert [file for file in found if not any((home / file).exists() for home in (SOURCE, ROOT))] == []


def test_every_folder_of_the_code_that_a_row_names_exists() -> None:
    spans = [span for row in rows() for span in SPAN.findall(row.where)]
    folders = [
        span for span in spans if re.fullmatch(r"(?:core|engines|formats|jobs|spi|store|rest|rpc)/[a-z_]+", span)
    ]
    assert folders
    assert [folder for folder in folders if not (SOURCE / folder).is_dir()] == []


@pytest.mark.parametrize("prefix", ["hoodie.table.service", "hudi."])
def test_every_property_of_hudi_tables_that_is_named_exists(prefix: str) -> None:
    named = {span for span in SPAN.findall(page()) if re.fullmatch(rf"{re.escape(prefix)}[a-z.-]*", span)}
    known = {row.key for row in HudiProcessFactory().settings.rows}
    assert named
    assert named - known == set()


def test_every_command_that_is_named_exists() -> None:
    found = list(command_lines(page()))
    assert len(found) > 5
    assert [" ".join(words) for words in found if not exists(words)] == []
