# SPDX-License-Identifier: Apache-2.0
"""Leaves out test files of which no test would run: importing them, and Spark with them, takes seconds."""

import json
import os
import re
from collections.abc import Set
from itertools import product
from pathlib import Path

from tests.kit.tiers import CHOSEN

MARKS = re.compile(r"^pytestmark = (\[[^\]]*\]|.+)", re.MULTILINE)
MARK = re.compile(r"pytest\.mark\.(\w+)")
SIMPLE = re.compile(r"[\w\s()]+")  # names of marks with and, or, not


def is_left_out(path: Path, *, root: Path, expression: str) -> bool:
    """A test file, or a folder with nothing but such files. ``expression``: as of ``-m``."""
    if path.is_dir():
        files = list(path.rglob("test_*.py"))
        return bool(files) and all(is_file_left_out(file, root, expression) for file in files)
    return path.match("test_*.py") and is_file_left_out(path, root, expression)


def is_file_left_out(file: Path, root: Path, expression: str) -> bool:
    marks = marks_of_all_tests(file.read_text(encoding="utf-8"))
    if not marks:
        return False
    chosen = json.loads(os.environ.get(CHOSEN, "null"))
    is_chosen = "long" not in marks or chosen is None or str(file.relative_to(root)) in chosen
    return not (is_chosen and can_be_selected(marks, expression))


def marks_of_all_tests(text: str) -> frozenset[str]:
    found = MARKS.search(text)
    return frozenset(MARK.findall(found[1]) if found else ())


def can_be_selected(marks: Set[str], expression: str) -> bool:
    """Whether a test with these marks, and maybe others, can be one that the expression of ``-m`` selects."""
    if not SIMPLE.fullmatch(expression):
        return True
    others = sorted(set(re.findall(r"\w+", expression)) - {"and", "or", "not"} - marks)
    known = dict.fromkeys(marks, True)
    values = (dict(zip(others, has, strict=True)) for has in product((False, True), repeat=len(others)))
    return any(eval(expression.strip(), {"__builtins__": {}}, known | more) for more in values)
