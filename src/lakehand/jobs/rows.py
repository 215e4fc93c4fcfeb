# SPDX-License-Identifier: Apache-2.0
"""Rows on request: what a reader sees before the commits of a job and after them, compared by count or checksum.

Beside a live writer other commits may lie between the start of a job and its own. So each commit of the job is compared
with the state right before it; a job that commits nothing is compared with the state that was the newest at its start.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from importlib import import_module
from typing import Any, ClassVar

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from lakehand.jobs.boundary import OutsideTable
from lakehand.jobs.checksums import Checksum, checksum, columns_of
from lakehand.jobs.job import Job
from lakehand.jobs.spark import activate

PARAMETER = "verify_rows"  # of the process: how rows are compared, and what an earlier attempt left of it
REPORT = "verified_rows"  # in the result of the job; while it runs, its first reading is in the notes
COUNT, CHECKSUM = "count", "checksum"
EQUAL, UNEQUAL, NOT_COMPARED = "equal", "unequal", "not-compared"
METADATA, DATA = "metadata", "data"
VERIFIES = "verifies_rows"  # set on the function of a plugin's job that compares rows by itself
LOST = "the job committed nothing, and what was read at its start was lost with the driver"

Document = dict[str, Any]
Run = Callable[[Job], Any]


class NotComparable(Exception):
    """The rows cannot be compared, which says nothing about whether they are the same."""


@dataclass(frozen=True)
class Step:
    """Commits of the job with nobody else's between them: the state before the first and the state after the last."""

    before: str
    after: str


@dataclass(frozen=True)
class Reading:
    """What a reader sees at one state."""

    state: str
    rows: int
    checksum: str = ""  # empty: the rows were only counted
    source: str = DATA  # or metadata, if no data was read
    columns: str = ""  # a digest of names and types
    others: str = ""  # what others may change about the state later, as its format has it

    def refuse_other_columns(self, later: "Reading") -> None:
        if self.columns != later.columns:
            raise NotComparable("the columns are not the same: somebody changed them meanwhile")

    def is_equal(self, later: "Reading") -> bool:
        return (self.rows, self.checksum) == (later.rows, later.checksum)

    def shown(self) -> Document:
        found = {"state": self.state, "rows": self.rows, "from": self.source}
        return {**found, "checksum": self.checksum} if self.checksum else found


class RowReader(ABC):
    """Reads one table of a format at one of its states. A state is a text: a snapshot, a version or an instant."""

    # Jobs that take rows away by intent, by name, each with the reason that is shown instead of a comparison.
    changing: ClassVar[Mapping[str, str]] = {}

    def __init__(self, job: Job) -> None:
        self.job = job

    def check(self) -> None:
        """Raise NotComparable where a right rewrite shows other rows to the readers of this table."""

    @abstractmethod
    def newest(self) -> str | None:
        """The newest state; None for a table without one."""

    @abstractmethod
    def steps(self, result: Document) -> Sequence[Step]:
        """The commits of this operation so far, oldest first. ``result``: what the job returned, or noted before."""

    @abstractmethod
    def is_there(self, state: str) -> bool: ...

    @abstractmethod
    def count(self, state: str) -> tuple[int, str]:
        """The number of rows, and where it comes from: metadata or data."""

    @abstractmethod
    def checksum(self, state: str) -> tuple[Checksum, str]:
        """By reading all values; and the columns that they are in."""

    def others(self, state: str) -> str:
        """What others may change about a state that has been read."""
        return ""

    def check_others(self, before: Reading, after: Reading, result: Document) -> None:
        """Raise NotComparable if others changed one of two states between their readings."""


class FrameReader(RowReader):
    """Of a format that Spark reads."""

    @abstractmethod
    def frame(self, state: str) -> DataFrame: ...

    def exact_count(self, state: str) -> int | None:
        """The exact number of rows, if the metadata has it."""
        return None

    def count(self, state: str) -> tuple[int, str]:
        exact = self.exact_count(state)
        return (self.frame(state).count(), DATA) if exact is None else (exact, METADATA)

    def checksum(self, state: str) -> tuple[Checksum, str]:
        frame = self.frame(state)
        return checksum(frame), columns_of(frame)


def in_a_row(numbers: Sequence[int]) -> list[Step]:
    """The steps of commits with ascending numbers, each of which follows the state one lower."""
    steps: list[Step] = []
    for number in numbers:
        first = steps.pop().before if steps and steps[-1].after == str(number - 1) else str(number - 1)
        steps.append(Step(first, str(number)))
    return steps


def run_verified(name: str, run: Run, job: Job) -> Any:
    """Run a job, and compare rows if the process asks for it. A repeat may only compare, without running the job."""
    asked = job.parameters.get(PARAMETER)
    if not isinstance(asked, dict) or getattr(run, VERIFIES, False):
        return run(job)
    verification = Verification(job, asked)
    verification.read_start(name)
    if asked.get("only"):
        return {REPORT: verification.report()}
    activate_own(job)
    verification.result = run(job)
    return {**verification.result, REPORT: verification.report()}


def activate_own(job: Job) -> None:
    """The readings had a session of their own in this thread."""
    if job.session is not None:
        activate(job.session)


def with_own_session(job: Job) -> Job:
    """The engine may have given none, to a job that needs none."""
    given: Any = job.session
    if given is None:
        return job
    session = given.newSession()
    session.conf.set("spark.sql.ansi.enabled", "false")  # a checksum may wrap
    return replace(job, session=session)


class Verification:
    """The readings of one attempt, on a session of their own: what a job sets in its session does not change them."""

    def __init__(self, job: Job, asked: Document) -> None:
        self.job = with_own_session(job)
        self.asked = asked
        self.reader: RowReader | None = None
        self.result: Document = asked.get("notes") or {}  # of the job; before it has one, what an attempt noted
        self.start = reading_of(self.result.get(REPORT), has_checksum=asked.get("mode") != COUNT)
        self.compared: list[tuple[Reading, Reading]] = []
        self.why_not = ""
        self.seconds = 0.0

    @contextmanager
    def watched(self) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        except NotComparable as error:
            self.why_not = str(error)
        finally:
            self.seconds += time.monotonic() - began

    def read_start(self, name: str) -> None:
        """Before the job: the newest state, unless an earlier attempt has committed or has read it."""
        with self.watched():
            reader = reader_of(self.job, name)
            reader.check()
            self.reader = reader
            if not self.asked.get("only") and not reader.steps(self.result):
                self.job.phase("reading the rows before")
                self.start = self.read_newest(reader)
                self.job.note(REPORT, asdict(self.start) if self.start else None)

    def read_newest(self, reader: RowReader) -> Reading | None:
        state = reader.newest()
        return self.read(reader, state) if state is not None else None

    def read(self, reader: RowReader, state: str) -> Reading:
        """No job reads outside of its table, and neither does this."""
        self.job.check()
        try:
            if not reader.is_there(state):
                raise NotComparable(f"{state} is gone: somebody removed that state of the table meanwhile")
            others = reader.others(state)
            found = self.numbers(reader, state)
        except OutsideTable as error:
            raise NotComparable(str(error)) from error
        return replace(found, others=others)

    def numbers(self, reader: RowReader, state: str) -> Reading:
        if self.asked.get("mode") == COUNT:
            count, source = reader.count(state)
            return Reading(state, count, source=source)
        found, columns = reader.checksum(state)
        return Reading(state, found.rows, found.text, columns=digest(columns))

    def report(self) -> Document:
        """What the operation shows: an outcome with its reason, and the numbers of both states."""
        with self.watched():
            if self.reader is not None:
                self.job.phase("reading the rows after")
                self.compare(self.reader)
        outcome, reason = self.outcome()
        before, after = self.compared[-1] if self.compared else (self.start, None)
        numbers = {"before": before and before.shown(), "after": after and after.shown()}
        return {"mode": self.asked.get("mode"), "outcome": outcome, "reason": reason, **numbers,
                "seconds": round(self.seconds, 3)}  # fmt: skip

    def compare(self, reader: RowReader) -> None:
        """Step by step, up to the first difference."""
        steps = reader.steps(self.result)
        for step in steps:
            if not self.are_equal(reader, self.read_before(reader, step), self.read(reader, step.after)):
                return
        if not steps and self.start is not None:
            self.are_equal(reader, self.start, self.read(reader, self.start.state))
        elif not steps and self.asked.get("only"):
            raise NotComparable(LOST)
        elif not steps:
            raise NotComparable("the table had no rows to compare")

    def read_before(self, reader: RowReader, step: Step) -> Reading:
        """A state that is history may lose its files to somebody else; that is no fault of the job's."""
        if self.start is not None and self.start.state == step.before:
            return self.start
        try:
            return self.read(reader, step.before)
        except (Py4JError, PySparkException, OSError) as error:
            reason = f"{step.before}, the state before the commit, cannot be read any more: {error}"
            raise NotComparable(reason[:500]) from error

    def are_equal(self, reader: RowReader, before: Reading, after: Reading) -> bool:
        before.refuse_other_columns(after)
        reader.check_others(before, after, self.result)
        self.compared.append((before, after))
        return before.is_equal(after)

    def outcome(self) -> tuple[str, str]:
        """A difference counts even if something else could not be compared."""
        if self.compared and not self.compared[-1][0].is_equal(self.compared[-1][1]):
            return UNEQUAL, difference(*self.compared[-1])
        if self.why_not:
            return NOT_COMPARED, self.why_not
        before, after = self.compared[-1]
        what = "the same checksum" if after.checksum else f"counted from {before.source} and {after.source}"
        return EQUAL, f"{after.rows} rows at {before.state} and at {after.state}, {what}"


def difference(before: Reading, after: Reading) -> str:
    if before.rows != after.rows:
        return f"{before.rows} rows at {before.state}, and {after.rows} rows at {after.state}"
    return f"{before.rows} rows at {before.state} and at {after.state}, with other values"


def reader_of(job: Job, name: str) -> RowReader:
    """By the format in the job's name: ``hudi.compaction`` has its reader in ``lakehand.jobs.hudi.rows``."""
    format_, _, action = name.replace("-", "_").partition(".")
    if ":" in name:
        raise NotComparable(f"{name} is a job of a plugin, whose tables cannot be read here")
    if job.parameters.get("dry_run"):
        raise NotComparable("a dry run changes nothing")
    if job.session is None:
        raise NotComparable("the engine has no Spark to read rows with")
    reader: type[RowReader] = import_module(f"lakehand.jobs.{format_}.rows").READER
    if why := reader.changing.get(action):
        raise NotComparable(why)
    return reader(job)


def reading_of(document: Any, *, has_checksum: bool) -> Reading | None:
    """What an earlier attempt noted, if it is whole and of the same mode."""
    try:
        found = Reading(**document) if document else None
    except TypeError:
        return None
    return found if found is not None and bool(found.checksum) is has_checksum else None


def digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:16] if text else ""
