# SPDX-License-Identifier: Apache-2.0
"""One line per thing, with fields, without secrets."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from lakehand.observe.logs import hidden, set_up

log = logging.getLogger("lakehand.test")


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level


def test_machines_get_json_with_fields() -> None:
    out = io.StringIO()
    set_up("info", "auto", out)

    log.info("operation moved", extra={"operation": 7, "status": "running"})
    log.debug("not said")

    line = json.loads(out.getvalue())
    assert line["message"] == "operation moved"
    assert (line["level"], line["operation"], line["status"]) == ("INFO", 7, "running")
    assert line["time"].endswith("Z")


def test_people_get_a_line_and_the_trouble() -> None:
    out = io.StringIO()
    set_up("info", "text", out)
    try:
        raise ValueError("odd")
    except ValueError:
        log.exception("it failed", extra={"loop": "monitor"})

    assert "it failed  loop=monitor" in out.getvalue()
    assert "ValueError: odd" in out.getvalue()


@pytest.mark.parametrize("format", ["text", "json"])
def test_no_secret_is_written(format: str) -> None:
    out = io.StringIO()
    set_up("info", format, out)

    log.warning("GET /x?token=sesame&a=1", extra={"url": "postgresql://u:sesame@host/db"})
    log.warning("Authorization: Bearer sesame")

    assert "sesame" not in out.getvalue()
    assert "a=1" in out.getvalue()


@pytest.mark.parametrize(
    ("text", "without"),
    [
        ("?token=abc&b=1", "?token=***&b=1"),
        ("mysql://u:pw@h/d", "mysql://u:***@h/d"),
        ('{"password": "abc"}', '{"password": "***"}'),
        ("HUDI-CALLBACK-KEY: abc", "HUDI-CALLBACK-KEY: ***"),
        ("the token was lost", "the token was lost"),
    ],
)
def test_what_looks_like_a_secret_is_hidden(text: str, without: str) -> None:
    assert hidden(text) == without


def test_foreign_text_neither_moves_the_cursor_nor_starts_a_line() -> None:
    out = io.StringIO()
    set_up("info", "text", out)
    nasty = "\x1b[2J\n12:00:00 info    all is well\u202e\x9b"
    log.warning("a look at %s failed", nasty, extra={"reason": nasty})
    [line] = out.getvalue().splitlines()
    assert line.count(r"\x1b[2J\n12:00:00 info    all is well\u202e\x9b") == 2
