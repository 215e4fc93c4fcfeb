# SPDX-License-Identifier: Apache-2.0
"""Reads the rows of a Hudi table as of one of its instants, without the columns that Hudi adds."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from pyspark.sql import DataFrame

from lakehand.jobs.checksums import without
from lakehand.jobs.hudi import checks, timelines
from lakehand.jobs.rows import Document, FrameReader, NotComparable, Reading, Step

META = "_hoodie_"
NOTHING = "the beginning of the timeline"
CLEAN = "clean-"


class HudiRows(FrameReader):
    """A reading as of an instant has each commit that was begun up to then and is completed by now."""

    changing: ClassVar[Mapping[str, str]] = {"partition_ttl": "expired partitions go, by intent"}

    def newest(self) -> str | None:
        """The last commit; where the plan is known, the last one before it."""
        known, plan = self._completed("commits"), self.job.parameters.get("instant")
        earlier = [one for one in known if not plan or one < plan]
        return earlier[-1] if earlier else None

    def steps(self, result: Document) -> Sequence[Step]:
        """Each plan of ours that is completed, against the commit before it."""
        known = self._completed("commits")
        return [
            Step(max((one for one in known if one < instant), default=NOTHING), instant)
            for instant in sorted(self._own(result))
            if instant in known
        ]

    def is_there(self, state: str) -> bool:
        return state in self._completed("commits")

    def frame(self, state: str) -> DataFrame:
        checks.check_table(self.job)
        read = self.job.session.read.format("hudi").option("as.of.instant", state)
        return without(read.load(self.job.boundary.real), lambda name: name.startswith(META))

    def others(self, state: str) -> str:
        """Writes that began before and are not completed, and the last clean: each as a word."""
        session, location = self.job.session, self.job.boundary.real
        pending = [one for one in timelines.pending_writes(session, location) if one <= state]
        return " ".join([*pending, *(f"{CLEAN}{one}" for one in self._completed("clean")[-1:])])

    def check_others(self, before: Reading, after: Reading, result: Document) -> None:
        """A write that ended between the readings shows in one of them; a clean may have taken files from one."""
        own, completed = self._own(result), set(self._completed("commits"))
        began = {one for one in before.others.split() if one in completed}
        between = {one for one in completed if before.state < one < after.state}
        if foreign := sorted((began | between) - own):
            raise NotComparable(f"write {foreign[0]} was completed between the two readings")
        cleans = {one.removeprefix(CLEAN) for one in after.others.split() if one.startswith(CLEAN)}
        if cleans - own - {one.removeprefix(CLEAN) for one in before.others.split()}:
            raise NotComparable(f"clean {max(cleans)} ran between the two readings")

    def _completed(self, kind: str) -> list[str]:
        return timelines.completed(self.job.session, self.job.boundary.real, kind)

    def _own(self, result: Document) -> set[str]:
        """The plans that this operation runs, as far as they are known."""
        instants = {str(one) for one in result.get("instants") or ()}
        plan = self.job.parameters.get("instant")
        return instants | ({str(plan)} if plan else set())


READER = HudiRows
