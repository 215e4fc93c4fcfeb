# SPDX-License-Identifier: Apache-2.0
"""Sentences of the product: a test names the case and its numbers, and the words are in ``sentences.txt`` beside it.

A test fails if its sentence lacks a value that the test names, has another number than the file, or is the sentence of
another case. New words alone fail no test: the run fails once per file, and ``make sentences`` writes the files anew.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

FILE = "sentences.txt"
HINT = "`make sentences` writes it anew; read the difference before you commit it"
TIME = re.compile(r"(\d{4}-\d\d-\d\d )?\d\d:\d\d(:\d\d)? UTC")  # in place of a value that no test can know
SECONDS = re.compile(r"\d+(\.\d+)? m?s(?!\w)")
CASE = re.compile(r"[^\t\n{}\"\\]+")


class Met(NamedTuple):
    """A sentence that is not in its file, as a test has met it."""

    file: str
    case: str
    words: str
    test: str


FOUND = pytest.StashKey[list[Met]]()


class Sentences:
    """The sentences that the tests of one folder meet."""

    def __init__(self, file: Path, test: str = "", *, writing: bool = False) -> None:
        self.file = file
        self.test = test
        self.writing = writing
        self.stored = read(file)
        self.found: list[Met] = []

    def check(self, case: str, sentence: str, **values: object) -> None:
        """Assert that this sentence is said in this case, with these values in it."""
        assert CASE.fullmatch(case), f"{case!r} has a character that {FILE} has no place for"
        stored = self.stored.get(case)
        if stored is not None and fits(stored, sentence, values) and not self.writing:
            return
        words = words_of(sentence, values)
        if not self.writing:
            assert stored is not None, f"{self.file} lacks the case {case!r}. {HINT}"
            assert shape(words) != shape(stored), f"{sentence!r} is not {stored!r} with {values}. {HINT}"
            others = [one for one, known in self.stored.items() if fits(known, sentence) and not fits(known, stored)]
            assert not others, f"{sentence!r} is the sentence of the case {others[0]!r}, not of {case!r}"
        self.found.append(Met(str(self.file), case, words, self.test))


def fits(words: str, sentence: str, values: Mapping[str, object] | None = None) -> bool:
    """Whether the words with these values are the sentence; without values, with any."""

    def place(name: re.Match[str]) -> str:
        if values is None:
            return ".+"
        return f"(?:{pattern_of(values[name[1]]).pattern})" if name[1] in values else name[0]

    has_all = set(values or ()) <= set(re.findall(r"\{(\w+)\}", words))
    pattern = re.sub(r"\\\{(\w+)\\\}", place, re.escape(words))
    return has_all and re.fullmatch(pattern, sentence, re.DOTALL) is not None


def words_of(sentence: str, values: Mapping[str, object]) -> str:
    """The sentence with the names of the values in their places: longer values first, equal ones as they come."""
    taken: list[tuple[int, int, str]] = []
    for name, value in sorted(values.items(), key=lambda item: -len(str(item[1]))):
        free = (
            m.span() for m in pattern_of(value).finditer(sentence) if not any(overlap(m.span(), one) for one in taken)
        )
        span = next(free, None)
        assert span is not None, f"{name}={value!r} is not in {sentence!r}"
        taken.append((*span, name))
    for start, end, name in sorted(taken, reverse=True):
        sentence = f"{sentence[:start]}{{{name}}}{sentence[end:]}"
    return sentence


def pattern_of(value: object) -> re.Pattern[str]:
    """A value where it is no part of a longer word or number; a pattern is itself."""
    if isinstance(value, re.Pattern):
        return value
    text = str(value)
    before = r"(?<![\w-])(?<!\d\.)" if text[:1].isalnum() else ""
    after = r"(?![\w-])(?!\.\d)" if text[-1:].isalnum() else ""
    return re.compile(before + re.escape(text) + after)


def overlap(span: tuple[int, int], other: tuple[int, int, str]) -> bool:
    return span[0] < other[1] and other[0] < span[1]


def shape(words: str) -> str:
    """The words without values and numbers."""
    return re.sub(r"\{\w+\}|\d+", "#", words)


def read(file: Path) -> dict[str, str]:
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return {case: words.replace("\\n", "\n") for case, _, words in (line.partition("\t") for line in lines)}


def write(file: Path, sentences: Mapping[str, str]) -> None:
    lines = (f"{case}\t" + words.replace("\n", "\\n") + "\n" for case, words in sorted(sentences.items()))
    file.write_text("".join(lines), encoding="utf-8")


def unused(file: Path) -> list[str]:
    """The cases in a file that no test beside it names."""
    code = "".join(path.read_text(encoding="utf-8") for path in file.parent.glob("*.py"))
    return [case for case in read(file) if f'"{case}"' not in code]


def differences(found: Sequence[Met], stored: Mapping[str, str]) -> Iterator[str]:
    """What tests have met in each case that the file has in other words."""
    for case in sorted({met.case for met in found}):
        tests = [met.test for met in found if met.case == case]
        yield f"{case} ({tests[0]}{f' and {len(tests) - 1} more' if tests[1:] else ''})"
        yield from (f"  - {known}" for other, known in stored.items() if other == case)
        yield from (f"  + {words}" for words in sorted({met.words for met in found if met.case == case}))


def rewrite(file: Path, found: Sequence[Met]) -> list[Met]:
    """Write a file anew; returns what it cannot have: cases that stand for several sentences."""
    words = {met.case: met.words for met in found}
    doubtful = {met.case for met in found if words[met.case] != met.words}
    write(file, {case: known for case, known in read(file).items() if case not in unused(file)} | words)
    return [met for met in found if met.case in doubtful]


# What pytest calls; tests/conftest.py names this module.


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-sentences", action="store_true", help=f"run the tests that need a {FILE}, and write it")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[FOUND] = []


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("write_sentences"):
        config.hook.pytest_deselected(items=[item for item in items if not needs_sentences(item)])
        items[:] = filter(needs_sentences, items)


def needs_sentences(item: pytest.Item) -> bool:
    return "sentences" in getattr(item, "fixturenames", ())


@pytest.fixture
def sentences(request: pytest.FixtureRequest) -> Iterator[Sentences]:
    """The sentences of the test's folder."""
    config = request.config
    own = Sentences(request.path.parent / FILE, request.node.nodeid, writing=config.getoption("write_sentences"))
    yield own
    config.stash[FOUND] += own.found


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """A process of xdist has ended."""
    node.config.stash[FOUND] += [Met(*met) for met in getattr(node, "workeroutput", {}).get("sentences", ())]


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    config, found = session.config, session.config.stash[FOUND]
    if hasattr(config, "workeroutput"):
        config.workeroutput["sentences"] = [tuple(met) for met in found]
        return
    files = {Path(met.file) for met in found}
    if config.getoption("write_sentences"):
        files |= set((config.rootpath / "tests").rglob(FILE))
    for file in sorted(files):
        own = [met for met in found if met.file == str(file)]
        report(session, file, rewrite(file, own) if config.getoption("write_sentences") else own)


def report(session: pytest.Session, file: Path, found: Sequence[Met]) -> None:
    """Fail the run, as a test with the name of the file would."""
    if not found:
        return
    name = file.relative_to(session.config.rootpath).as_posix()
    lines = [f"Other sentences than in {name}. {HINT}.", "", *differences(found, read(file))]
    session.config.hook.pytest_runtest_logreport(
        report=pytest.TestReport(name, (name, None, name), {}, "failed", "\n".join(lines), "call")
    )
    session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED
