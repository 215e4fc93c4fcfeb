# SPDX-License-Identifier: Apache-2.0
"""Private words that this project once had for patterns with a known name: they stay out of code, messages and docs."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
READ = ("src", "tests", "bench", "examples", "docs", "tools", "deploy")
SUFFIXES = frozenset({".py", ".md", ".toml", ".sh", ".yml", ""})
HISTORY = ("CHANGELOG.md", "tests/test_words.py", "src/lakehand/store/migrations/")  # what was, under its name of then

# The retired word → what a stranger would look for.
RETIRED = {
    r"\w*[Dd]esks?": "service, handler",
    r"[Ff]aces(_of)?|FacesHere": "API context",
    r"Letters?|wire_letters": "request",
    r"[Ll]anes?|lane_of|by_lane": "worker pool",
    r"[Ss]eats?|CallLeft|at_home": "call with a deadline, abandoned call",
    r"[Ee]rrands?": "probe batch",
    r"in_hand|wonder|let_go|give_again": "in flight, mark unknown, release lease, resubmit",
    r"[Ss]ettlers?": "completer",
    r"[Ss]weepers?": "prober",
    r"[Cc]aretakers?|[Hh]ousekeepers?": "engine supervisor, history cleaner",
    r"[Ff]loods?|[Nn]ovelties": "rate limiter, event throttle",
    r"Vocabulary": "label limiter",
    r"Wish|wishes|SyncWish": "request",
    r"Unread|Found": "discovered, unreadable",
    r"waker|bells?": "wake-up event",
    r"[Ll]ooseRuntime|rehearsals?|Rehearsal|Rehearse|rehearse": "detached runtime, plugin harness",
    r"overtaken": "stale plan",
    r"wholeness|bury|Burden": "manifest integrity, tombstones, delete index",
    r"minder|farewell|deed": "lease watchdog, shutdown, action",
    r"last-words|last_words": "exit reason",
    r"[Pp]rose": "text",
    r"Ailing": "check failed",
    r"stamps?|stamped": "change token, operation tag",
    r"mended|worth while": "fixed, worth it",
    r"how tables fare|How tables fare": "health",
    r"Until\(|LeaseUntil": "lease grant",
    r"domain\.places|class Place\b": "table reference",
    r"[Ss]orry": "timeout answer",
    r"stir(?:s|red|ring)?": "wake",
    r"[Pp]ulses?": "heartbeat",
    r"examin(?:e|es|ed|ing)": "run checks",
    r"Visits?|core\.(?:answers|guards|memory|seats|turns|visits)": "plugin calls, evaluation",
    r"EngineWatch|class Watch|class Family|ProcessFamily": "engine monitor, process group",
    r"class Screen|cli\.screen|store\.(?:listed|rows)": "output, compiled statements",
    r"Cast|cast_of|Ending|Performance|class Feed": "demo tables, teardown, run, events",
    r"demo\.(?:cast|ending|feed|performance|picture|stage|story)": "demo tables, teardown, events, run, snapshot",
    r"hudi\.mirror|mirror_options": "writer options",
    r"Secrets\.chance|\.ring\(": "id source, wake",
    # What is stored or public keeps its name: the columns patience, place, beat_time and look_time, boot and beat in
    # driver.json, the setting max_patience, `tables look`, look_again, next_try.
    r"PATIENCE\w*|testing\.patience|patience: float|is_patient": "timeout, deferral count",
    r"told_\w+|\w+_told|told(?= =)|\{told\}": "description, report",
    r"marks?_of|mark: str|moment\(mark|(?:a|another|present|no|new) mark|marks (?:from|that)": "heartbeat token",
    r"Beats?|BEATS?(?:_\w+)?|beats|def beat|(?:a|new|the) beat": "heartbeat",
    r"[Ww]ish(?:es|ed)?": "request",
    r"[Ss]tones?": "tombstones",
    r"A family|family of": "process group",
    r"[Ss]weep(?:s|ing)?|SWEEP|swept": "orphan removal, pass",
    r"neighbours\.\w+|import neighbours": "nested tables, concurrent writers",
    r"real_place|refuse_places|odd_place|places(?= =)|engine\.places|def places": "location, slots, references",
    r"jobs\.orders|class Orders?|malformed_?order|malformed order|self\.orders|order\.get": "work item",
    r"FAREWELL|TELL|LOOK|TRIES": "shutdown, report, check, attempts",
    r"def (?:say|tell|telling)": "print, record, report",
    r"looked at": "probed, evaluated, read",
    r"HOUSE_PACE|CARE_PACE|house(?= =)|care(?= =)|rooms of|A face": "history cleaner, engine supervisor, package, API",
    r"(?:next|two|one|no|each|first|last|further) tr(?:y|ies)": "attempt",
    r"sp(?:eaks?|oke|oken|eaking)": "send, notify, understand",
    r"besides": "other, also",
    r"class Rows": "compiled statements",
}


WORDS = "|".join(f"(?:{word})" for word in RETIRED)
PATTERN = re.compile(rf"(?<![\w-])(?:{WORDS})(?![\w])")


def texts() -> Iterator[Path]:
    for path in [*ROOT.glob("*.md"), *(p for folder in READ for p in (ROOT / folder).rglob("*"))]:
        name = path.relative_to(ROOT).as_posix()
        if path.is_file() and path.suffix in SUFFIXES and "target" not in path.parts and not name.startswith(HISTORY):
            yield path


def retired_words(path: Path) -> Iterator[str]:
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1):
        yield from (f"{path.relative_to(ROOT)}:{number}: {found[0]}" for found in PATTERN.finditer(line))


@pytest.mark.parametrize("folder", [".", *READ])
def test_retired_words_stay_retired(folder: str) -> None:
    own = [p for p in texts() if p.relative_to(ROOT).parts[0] == folder or (folder == "." and p.parent == ROOT)]
    assert [word for path in own for word in retired_words(path)] == []
