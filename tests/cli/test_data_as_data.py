# SPDX-License-Identifier: Apache-2.0
"""Foreign text is printed as data: no markup, no control character and no link of theirs reaches a terminal."""

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from rich.table import Table as RichTable
from rich.text import Text

import lakehand
from lakehand.cli.service import plugins_view
from lakehand.cli.views import card, health_line
from lakehand.demo.console import DemoConsole
from lakehand.domain.actions import Action
from lakehand.domain.events import Event
from lakehand.domain.health import HealthPoint
from lakehand.domain.operations import Attempt, Handle, InstanceId, NewOperation, Status
from lakehand.domain.processes import Failure, Instant, TableProcess
from lakehand.domain.tables import Format, TableId, TableSpec
from lakehand.domain.texts import visible
from lakehand.output import SafeConsole, data, print_error, print_line
from lakehand.store import SqlStore
from tests import small_tables
from tests.cli.conftest import Run, answer
from tests.rest.parts import Listed, LoggedEngine, context_over, serving

NASTY = [
    "[/]boom",
    "[link=http://x]y[/link]",
    "[bold red]loud[/] :warning:",
    "\x1b]8;;http://x\x07click\x1b]8;;\x07",
    "\x1b[2Jgone",
    "\x9b2Jgone",
    "one\rtwo\x08\x7f",
    "moc\u202eexe",
    "zero\u200bwidth\u2066x\u2069",
    "no\udcffutf8",
]
UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ud800-\udfff]")
STYLE = re.compile(r"\x1b\[[0-9;]*m")
ME = InstanceId("me")
COMPACTION = Action("compaction")


@pytest.fixture(params=NASTY, ids=ascii)
def nasty(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["markup", "controls"])
def word(request: pytest.FixtureRequest) -> str:
    """Several in one, where each takes a service; what is stored is not text with lone surrogates."""
    chosen = NASTY[:3] if request.param == "markup" else NASTY[3:]
    return "".join(chosen).replace("\udcff", "?")


@pytest.fixture
def url(store: SqlStore, word: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(LoggedEngine, "logs", lambda *_, offset, **__: "" if offset else f"{word}\n")
    with serving(context_over(store, listed=Listed([word.replace("/", "")]))) as client:
        yield str(client.base_url)


@pytest.fixture
def table(store: SqlStore, word: str) -> TableId:
    """A table of which everything that anybody can name is nasty, and an operation of it that failed."""
    text, now = word, store.clock.now()
    spec = TableSpec(
        location=f"/data/{text}", format=Format("hudi"), db_name=text, table_name=text, owner=text, queue=text,
        action_types=frozenset({COMPACTION}), properties={text: text},
    )  # fmt: skip
    table = store.tables.add(spec, now=now)[0]
    process = TableProcess(action=COMPACTION, reason=text)
    new = NewOperation(table=table.id, instant=Instant(text), process=process, queue=text, owner=text)
    pending, _ = store.operations.add(new, now=now)
    claimed = store.operations.claim(pending, holder=ME, now=now, time_to_live=timedelta(minutes=1))
    assert claimed is not None
    failure = Failure(reason=text, message=text)
    attempt = Attempt(operation=claimed.id, number=1, handle=Handle(text), engine="spark", instance=ME, started_at=now)
    attempt = replace(attempt, finished_at=now, outcome="failed", failure=failure)
    running = store.operations.save(claimed.moved_to(Status.SUBMITTED, at=now, reason=text), now=now, attempt=attempt)
    failed = running.moved_to(Status.FAILED, at=now, reason=text)
    result: dict[str, Any] = {text: text, "would_delete": [text], "would_delete_files": 1}
    store.operations.save(replace(failed, failure=failure, result=result), now=now, release=True)
    store.operations.add(replace(new, instant=Instant("20261114191013982")), now=now)
    health = HealthPoint(at=now, numbers={"files": 3, text: 4, "histogram": {text: 3}})
    store.probes.finish({table.id: now}, {}, problems={table.id: text}, health={table.id: health}, now=now)
    store.events.add([Event(kind="odd", message=text, table=table.id, operation=claimed.id)], now=now)
    return table.id


COMMANDS = [
    "tables list", "tables show 1", "tables history 1", "tables evaluate 1", "tables pause 1", "tables resume 1",
    "tables change 1 --priority 3", "operations list", "operations show 1", "operations show 2", "operations logs 1",
    "operations retry 1", "operations cancel 2", "operations remove 2", "explain 1", "operations clear 1 --yes",
    "tables remove 1", "catalogs list", "catalogs sync", "plugins", "version",
]  # fmt: skip


def harmless(printed: str) -> bool:
    return UNSEEN.search(printed) is None


@pytest.mark.usefixtures("table")
def test_no_listing_lets_a_character_of_a_stranger_through(lakehand: Run, word: str) -> None:
    for command in COMMANDS:
        result = lakehand(*command.split())
        assert result.exception is None or isinstance(result.exception, SystemExit), (command, result.exception)
        assert harmless(result.output), (command, ascii(result.output))
        if command in (
            "tables list",
            "tables show 1",
            "tables history 1",
            "operations list",
            "operations show 1",
            "explain 1",
        ):
            assert visible(word)[:6] in result.stdout, command


@pytest.mark.usefixtures("table")
def test_on_a_terminal_there_are_colours_of_ours_and_nothing_of_theirs(
    lakehand: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    for command in COMMANDS:
        printed = lakehand(*command.split()).output
        assert harmless(STYLE.sub("", printed)), (command, ascii(printed))


@pytest.mark.usefixtures("table")
def test_json_keeps_the_exact_text(lakehand: Run, word: str) -> None:
    printed = lakehand("tables", "show", 1, "--json")
    assert answer(printed)["table_name"] == word
    assert harmless(printed.stdout), "JSON escapes what cannot be seen"


def test_folders_with_nasty_names_are_checked_and_found(
    type_in: Run, tmp_path: Path, nasty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEHAND_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    lake = tmp_path / "lake"
    small_tables.broken(lake / nasty.replace("/", "|"))
    small_tables.broken(lake / f"two {nasty.replace('/', '|')}")
    for command in (["check"], ["check", "--long"], ["tables", "discover"]):
        result = type_in(*command, lake)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        assert harmless(result.output), ascii(result.output)


def test_an_error_is_one_message_whatever_it_quotes(nasty: str, capsys: pytest.CaptureFixture[str]) -> None:
    print_error(f"there is no table {nasty}\nlakehand: all is well")
    printed = capsys.readouterr().err
    assert harmless(printed)
    assert visible(nasty) in printed
    assert "\nlakehand: all is well" not in printed, "a second line passes for no message of its own"


def test_a_line_is_printed_as_it_is(nasty: str, capsys: pytest.CaptureFixture[str]) -> None:
    print_line(f"{nasty} is removed")
    assert capsys.readouterr().out == f"{visible(nasty)} is removed\n"


def test_the_demo_escapes_in_the_same_way(nasty: str, capsys: pytest.CaptureFixture[str]) -> None:
    console = DemoConsole()
    console.line("writer", nasty)
    console.heading(nasty, nasty)
    assert harmless(capsys.readouterr().out)


def test_the_console_escapes_everything_however_it_is_made(nasty: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Views come and go: also one that makes Text of data by itself prints no control character."""
    rows = RichTable(nasty)
    rows.add_row(nasty)
    rows.add_row(Text(nasty))
    for what in (nasty, Text(nasty), data(nasty), rows):
        SafeConsole(width=200).print(what)
    printed = capsys.readouterr().out
    assert harmless(printed)
    assert printed.count(visible(nasty)) >= 4, "Text drops a few by itself"


def test_health_and_plugins_are_shown_as_they_are(nasty: str, capsys: pytest.CaptureFixture[str]) -> None:
    document: dict[str, Any] = {
        "name": nasty, "location": nasty, "format": nasty, "also": [nasty], "problem": nasty, "state": "broken",
        "numbers": {"files": 1, nasty: nasty, "histogram": {nasty: 1}},
        "actions": [{"action": nasty, "needed": True, "reason": nasty}],
    }  # fmt: skip
    plugin = {"kind": "engine", "name": nasty, "state": nasty, "reason": nasty, "version": nasty, "pairs": {nasty: []}}
    for what in (card(document), health_line(document), plugins_view({"items": [plugin]})):
        SafeConsole(width=200).print(what)
    assert harmless(capsys.readouterr().out)


def test_nothing_is_printed_past_the_console_or_with_markup() -> None:
    """New code: SafeConsole instead of Console, data() and join() instead of markup, visible() where print is used."""
    root = Path(lakehand.__file__).parent
    for file in [*sorted((root / "cli").rglob("*.py")), *sorted((root / "demo").rglob("*.py")), root / "output.py"]:
        source = file.read_text()
        if file.name != "output.py":
            assert not re.search(r"\bConsole\(", source), f"{file.name}: use SafeConsole"
        for word in ("from_markup", "rich.markup", "from_ansi", "markup=True", "typer.echo", "secho"):
            assert word not in source, f"{file.name}: {word}"
        for call in [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]:
            name = getattr(call.func, "attr", getattr(call.func, "id", ""))
            if name == "TextColumn":
                assert "markup" in {keyword.arg for keyword in call.keywords}, f"{file.name}:{call.lineno}"
            if name == "print" and isinstance(call.func, ast.Name) and call.args and file.name != "output.py":
                shown = ast.unparse(call.args[0])
                allowed = ("json.dumps(", "visible(", "render(", "lakehand: {text} ...")
                assert any(word in shown for word in allowed), f"{file.name}:{call.lineno}: {shown}"
