# SPDX-License-Identifier: Apache-2.0
"""Names that this project once had for patterns with a known name stay out of its identifiers; prose is free."""

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
READ = ("src", "tests", "bench", "examples", "tools")
HISTORY = ("tests/test_words.py", "src/lakehand/store/migrations/")  # what was, under its name of then

# The retired name, as a whole identifier → what a stranger would look for.
# What is stored or public keeps its name: the columns patience, place, beat_time and look_time, boot and beat in
# driver.json, look_again, next_try.
RETIRED = {
    r"\w*[Dd]esks?": "service, handler",
    r"[Ff]aces(?:_of)?|FacesHere": "API context",
    r"Letters?|wire_letters": "request",
    r"[Ll]anes?|lane_of|by_lane": "worker pool",
    r"[Ss]eats?|CallLeft|at_home": "call with a deadline, abandoned call",
    r"[Ee]rrands?": "probe batch",
    r"in_hand|wonder|let_go|give_again": "in flight, mark unknown, release lease, resubmit",
    r"[Ss]ettlers?": "completer",
    r"[Ss]weepers?": "prober",
    r"[Ss]weep(?:s|ing)?|SWEEP|swept": "orphan removal, pass",
    r"[Cc]aretakers?|[Hh]ousekeepers?|HOUSE_PACE|CARE_PACE": "engine supervisor, history cleaner",
    r"[Ff]loods?|[Nn]ovelties": "rate limiter, event throttle",
    r"Vocabulary": "label limiter",
    r"(?:Sync)?[Ww]ish(?:es|ed)?": "request",
    r"Unread|Found": "discovered, unreadable",
    r"waker|bells?": "wake-up event",
    r"stir(?:s|red|ring)?": "wake",
    r"[Ll]ooseRuntime|[Rr]ehears(?:e|als?)": "detached runtime, plugin harness",
    r"overtaken": "stale plan",
    r"wholeness|bury|Burden": "manifest integrity, tombstones, delete index",
    r"[Ss]tones?": "tombstones",
    r"minder|farewell|FAREWELL|deed": "lease watchdog, shutdown, action",
    r"last_words": "exit reason",
    r"[Pp]rose": "text",
    r"Ailing": "check failed",
    r"examin(?:e|es|ed|ing)": "run checks",
    r"stamps?|stamped": "change token, operation tag",
    r"mended": "fixed",
    r"LeaseUntil": "lease grant",
    r"[Ss]orry": "timeout answer",
    r"[Pp]ulses?|Beats?|BEATS?(?:_\w+)?|beats": "heartbeat",
    r"marks?_of": "heartbeat token",
    r"PATIENCE\w*|is_patient|max_patience": "timeout, deferral count",
    r"[Ss]ight|merit|\w*hindrance|Board": "coverage, rank, why it waits, usage",
    r"Visits?": "plugin calls, evaluation",
    r"EngineWatch|ProcessFamily": "engine monitor, process group",
    r"Cast|cast_of|Ending|Performance": "demo tables, teardown, run",
    r"mirror_options": "writer options",
    r"told_\w+|\w+_told": "description, report",
    r"real_place|odd_place|refuse_places": "location, references",
    r"malformed_?order": "work item",
    r"TELL|LOOK|TRIES": "report, check, attempts",
    r"sp(?:eaks?|oke|oken|eaking)": "send, notify, understand",
}
# Names that are only retired as one kind of identifier: rows may be a variable, and a writer's mark an attribute.
RETIRED_AS = {
    "class": {
        r"Place": "table reference",
        r"Until": "lease grant",
        r"Watch|Family": "engine monitor, process group",
        r"Screen|Rows": "output, compiled statements",
        r"Feed": "events",
        r"Orders?": "work item",
    },
    "function": {
        r"say|tell|telling": "print, record, report",
        r"beat": "heartbeat",
        r"ring": "wake",
        r"places": "slots, references",
    },
    "variable": {r"told|house|care|places": "description, history cleaner, engine supervisor, slots"},
    "attribute": {r"ring": "wake", r"chance": "id source", r"orders": "work item"},
    "module": {
        r"domain\.places": "table reference",
        r"core\.(?:answers|guards|memory|seats|turns|visits)": "plugin calls, evaluation",
        r"cli\.screen|store\.(?:listed|rows)": "output, compiled statements",
        r"demo\.(?:cast|ending|feed|performance|picture|stage|story)": "tables, teardown, events, run, snapshot",
        r"hudi\.mirror|hudi\.neighbours|jobs\.orders": "writer options, concurrent writers, work item",
        r"testing\.patience": "timeout",
    },
}
WORDS = "|".join(RETIRED)
KINDS = ("class", "function", "variable", "attribute", "key")
PATTERNS = {kind: re.compile("|".join([WORDS, *RETIRED_AS.get(kind, {})])) for kind in KINDS}
PATTERNS["module"] = re.compile(rf"(?:.*\.)?(?:{'|'.join(RETIRED_AS['module'])}|{WORDS})")
# What has none of these in its text, in whatever meaning, needs no parsing: nearly all files.
SOMEWHERE = "|".join([WORDS, *(name for kind in KINDS for name in RETIRED_AS.get(kind, {}))])
IMPORTED = re.sub(r"\w+\\\.", "", "|".join(RETIRED_AS["module"]))
ANY = re.compile(
    rf"(?<![^\W_])(?:{SOMEWHERE})(?![^\W_])|import .*\b(?:{IMPORTED})\b|\.(?:{IMPORTED}) import", re.MULTILINE
)
KEY = re.compile(r"[a-z][a-z0-9_-]*(?:\.[a-z0-9_-]+)+|lakehand_\w+|/[\w{}/.:-]+")


def identifiers(code: str) -> Iterator[tuple[int, str, str]]:
    """The line, the kind and the text of each name."""
    for node in ast.walk(ast.parse(code)):
        yield from ((getattr(node, "lineno", 0), kind, name) for kind, name in names_of(node))


def names_of(node: ast.AST) -> Iterable[tuple[str, str]]:
    """What a node defines or uses; of a setting's key, a metric's name and a route, each part."""
    found: Iterable[tuple[str, str]] = ()
    match node:
        case ast.ClassDef(name=name):
            found = [("class", name)]
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            found = [("function", name)]
        case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
            found = [("variable", name)]
        case ast.Attribute(attr=name):
            found = [("attribute", name)]
        case ast.Import(names=names):
            found = [("module", one.name) for one in names]
        case ast.ImportFrom(module=module, names=names):
            found = [("module", f"{module}"), *(("module", f"{module}.{one.name}") for one in names)]
        case ast.Constant(value=str(text)) if KEY.fullmatch(text):
            found = [("key", part) for part in re.split(r"[^a-zA-Z0-9]+", text)]
    return found


def retired(code: str) -> list[tuple[int, str, str]]:
    return [(line, kind, name) for line, kind, name in identifiers(code) if PATTERNS[kind].fullmatch(name)]


def instead(kind: str, name: str) -> str:
    tables = {**RETIRED, **RETIRED_AS.get(kind, {})}
    return next(other for pattern, other in tables.items() if re.fullmatch(rf"(?:.*\.)?(?:{pattern})", name))


def test_retired_names_stay_retired() -> None:
    found = []
    for path in (path for folder in READ for path in (ROOT / folder).rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        module = name.removesuffix(".py").replace("/", ".")
        code = path.read_text(encoding="utf-8")
        if name.startswith(HISTORY):
            continue
        if PATTERNS["module"].fullmatch(module):
            found.append(f"{name}: {instead('module', module)}")
        if ANY.search(code):
            found += [f"{name}:{line}: {kind} {text} → {instead(kind, text)}" for line, kind, text in retired(code)]
    assert found == []


@pytest.mark.parametrize(
    "code",
    [
        '"""Who speaks of lanes, floods and a sorry face, is examined besides."""',
        'raise ValueError("no stamp was mended, and the pulse is told")  # a wish of nobody',
        'print(f"{rows} rows in the settler")',
        "def rows(order, watch): return order.mark",
        'URL = "https://example.com"',
    ],
)
def test_an_ordinary_word_in_a_docstring_a_comment_or_a_message_passes(code: str) -> None:
    assert retired(code) == []


@pytest.mark.parametrize(
    ("code", "kind", "name"),
    [
        ("class TableDesk: ...", "class", "TableDesk"),
        ("class Watch: ...", "class", "Watch"),
        ("async def let_go(): ...", "function", "let_go"),
        ("def say(text): ...", "function", "say"),
        ("def f(*, wish): ...", "variable", "wish"),
        ("with a() as stamp: ...", "variable", "stamp"),
        ("alarm.ring()", "attribute", "ring"),
        ("from lakehand.core import seats", "module", "lakehand.core.seats"),
        ("import lakehand.domain.places", "module", "lakehand.domain.places"),
        ("from lakehand.store.rows import read", "module", "lakehand.store.rows"),
        ("from a import Settler as Completer", "module", "a.Settler"),
        ('key = "hudi.pulse.seconds"', "key", "pulse"),
        ('metric = "lakehand_floods_total"', "key", "floods"),
        ('route = "/api/v1/errands/{id}"', "key", "errands"),
    ],
)
def test_a_retired_identifier_fails_with_what_to_look_for(code: str, kind: str, name: str) -> None:
    assert ANY.search(code)
    assert [found[1:] for found in retired(code)] == [(kind, name)]
    assert instead(kind, name)
