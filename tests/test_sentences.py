# SPDX-License-Identifier: Apache-2.0
"""Sentences that tests meet: what fails the test itself, and what only the comparison with the file."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.sentences import FILE, Sentences, read, unused, write

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "tests").rglob(FILE))
FEW, OFF, AGE = "{files} of {needed} files are small", "{key} is false", "refused: younger than {age}"


@pytest.fixture
def known(tmp_path: Path) -> Sentences:
    write(tmp_path / FILE, {"few files": FEW, "off": OFF, "refused": "refused: {why}", "refused by age": AGE})
    return Sentences(tmp_path / FILE, "a test")


def test_the_sentence_of_the_file_with_the_values_of_the_test_is_right(known: Sentences) -> None:
    known.check("few files", "3 of 10 files are small", files=3, needed=10)
    known.check("few files", "7 of 10 files are small", files=re.compile(r"six|\d"), needed=10)
    assert known.found == []


def test_new_words_are_left_to_the_comparison(known: Sentences) -> None:
    known.check("few files", "small files: 3; worth it from 10", files=3, needed=10)
    assert [(met.case, met.words) for met in known.found] == [
        ("few files", "small files: {files}; worth it from {needed}")
    ]


def test_a_general_sentence_does_not_stand_for_the_new_words_of_a_special_one(known: Sentences) -> None:
    known.check("refused by age", "refused: not older than 3d", age="3d")
    assert [met.case for met in known.found] == ["refused by age"]


@pytest.mark.parametrize(
    ("sentence", "values"),
    [
        ("4 of 10 files are small", {"files": 3, "needed": 10}),  # another number
        ("4 of 11 files are small", {"files": 4, "needed": 10}),
        ("13 of 10 files are small", {"files": 3, "needed": 10}),  # a part of a number
        ("few files are small", {"files": 3, "needed": 10}),  # new words without the numbers
        ("3 of 10 files are small", {"files": 3}),  # a value that the test no longer names
        ("3 of 10 files are small", {"files": 3, "needed": 10, "few": 3}),  # one that the sentence does not have
        ("optimize is false", {}),  # what is said in another case
    ],
)
def test_other_numbers_and_the_sentence_of_another_case_fail_the_test(
    known: Sentences, sentence: str, values: dict[str, object]
) -> None:
    with pytest.raises(AssertionError):
        known.check("few files", sentence, **values)


def test_a_case_that_the_file_lacks_fails_the_test_with_the_command(known: Sentences) -> None:
    with pytest.raises(AssertionError, match="make sentences"):
        known.check("many files", "9 files")


PROJECT = """
def test_few(sentences):
    sentences.check("few files", "3 of 10 files are small", files=3, needed=10)

def test_two(sentences):
    sentences.check("off", "optimize is false", key="optimize")
"""


def run_pytest(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "tests.kit.sentences", "-p", "no:cacheprovider", "--rootdir", "."]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run([*command, *words], cwd=folder, env=env, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("words", [[], ["-p", "xdist", "-n", "1"]], ids=["one process", "xdist"])
def test_a_run_with_new_words_fails_by_the_name_of_the_file_until_it_is_written_anew(
    tmp_path: Path, words: list[str]
) -> None:
    tests = tmp_path / "tests"
    tests.mkdir()
    (tests / "test_it.py").write_text(PROJECT)
    write(tests / FILE, {"few files": "only {files} of {needed}", "off": OFF, "gone": "no test says this"})

    changed = run_pytest(tmp_path, *words)
    written = run_pytest(tmp_path, "--write-sentences", *words)
    again = run_pytest(tmp_path, *words)

    assert (changed.returncode, written.returncode, again.returncode) == (1, 0, 0)
    assert f"FAILED tests/{FILE}" in changed.stdout
    assert "1 failed, 2 passed" in changed.stdout
    assert f"+ {FEW}" in changed.stdout
    assert read(tests / FILE) == {"few files": FEW, "off": OFF}


def test_a_case_that_stands_for_two_sentences_is_not_written(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_it.py").write_text(PROJECT.replace('"off"', '"few files"'))

    assert run_pytest(tmp_path, "--write-sentences").returncode == 1


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.parent.name)
def test_every_sentence_is_of_a_test_and_holds_on_every_machine(file: Path) -> None:
    assert unused(file) == []
    assert [case for case, words in read(file).items() if "/tmp/" in words or "pytest-" in words] == []
    assert list(read(file)) == sorted(read(file))
