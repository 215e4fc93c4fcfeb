# SPDX-License-Identifier: Apache-2.0
"""A test file is left out only if none of its tests would run."""

import ast
from pathlib import Path

import pytest

from tests.kit.collecting import can_be_selected, is_left_out, marks_of_all_tests
from tests.kit.tiers import CHOSEN

FAST = "not spark and not server"
TESTS = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("marks", "expression", "expected"),
    [
        ({"spark"}, FAST, False),
        ({"server", "timeout"}, FAST, False),
        ({"long"}, FAST, True),
        ({"filterwarnings"}, FAST, True),
        ({"spark"}, "spark", True),
        ({"long"}, "spark", True),  # some of its tests may be marked so one by one
        ({"spark"}, "spark and not long", True),
        ({"spark", "long"}, "spark and not long", False),
        ({"spark"}, "(not spark) or server", True),
        ({"spark"}, "", True),
        ({"spark"}, "not spark(version=3)", True),  # more than names
    ],
)
def test_a_file_is_needed_if_any_test_with_its_marks_can_be_selected(
    marks: set[str], expression: str, expected: bool
) -> None:
    assert can_be_selected(marks, expression) is expected


@pytest.mark.parametrize(
    ("text", "chosen", "expected"),
    [
        ("pytestmark = pytest.mark.spark\n", "null", True),
        ("pytestmark = [\n    pytest.mark.server,\n    pytest.mark.timeout(9),\n]\n", "null", True),
        ("@pytest.mark.spark\ndef test_one(): ...\n", "null", False),
        ("pytestmark = pytest.mark.long\n", "null", False),
        ("pytestmark = pytest.mark.long\n", "[]", True),
        ("pytestmark = pytest.mark.long\n", '["test_one.py"]', False),
    ],
)
def test_a_file_is_left_out_if_its_marks_are(
    text: str, chosen: str, expected: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "test_one.py").write_text(text)
    (tmp_path / "conftest.py").write_text(text)
    monkeypatch.setenv(CHOSEN, chosen)

    assert is_left_out(tmp_path / "test_one.py", root=tmp_path, expression=FAST) is expected
    assert not is_left_out(tmp_path / "conftest.py", root=tmp_path, expression=FAST)


def test_a_folder_is_left_out_if_all_of_its_tests_are(tmp_path: Path) -> None:
    for name in ("a/test_one.py", "a/b/test_two.py"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("pytestmark = pytest.mark.spark\n")
    assert is_left_out(tmp_path / "a", root=tmp_path, expression=FAST)

    (tmp_path / "a/b/test_three.py").touch()
    assert not is_left_out(tmp_path / "a", root=tmp_path, expression=FAST)
    assert not is_left_out(tmp_path, root=tmp_path, expression=FAST)


def test_a_folder_without_tests_is_not_left_out(tmp_path: Path) -> None:
    assert not is_left_out(tmp_path, root=tmp_path, expression=FAST)


def test_the_marks_of_every_file_are_those_that_python_sees() -> None:
    for file in TESTS.rglob("test_*.py"):
        text = file.read_text(encoding="utf-8")
        if found := marks_of_all_tests(text):
            assert found <= marks_seen_by_python(text), file


def marks_seen_by_python(text: str) -> set[str]:
    [value] = [
        node.value
        for node in ast.parse(text).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
    ]
    return {node.attr for node in ast.walk(value) if isinstance(node, ast.Attribute) and node.attr != "mark"}
