# SPDX-License-Identifier: Apache-2.0
"""What Spark does for one job tag right now: tasks done and in all, and the words of the latest Spark job."""

from typing import Any

from pyspark import SparkContext

from lakehand.jobs.orders import Document


class Activity:
    """Counts over all Spark jobs of one tag; finished ones are asked about once only."""

    def __init__(self, context: SparkContext, tag: str) -> None:
        self._spark = context._jsc.sc()
        self._tag = tag
        self._finished: dict[int, tuple[int, int]] = {}

    def read(self) -> Document:
        tasks = dict(self._finished)
        words = ""
        for job in sorted(self._spark.statusTracker().getJobIdsForTag(self._tag)):
            if job not in tasks:
                data = self._spark.statusStore().job(job)
                tasks[job] = self._counted(job, data)
                words = description(data) or words
        done = sum(done for done, _ in tasks.values())
        total = sum(total for _, total in tasks.values())
        percent = {"percent": done * 100 // total} if total else {}
        return {"activity": words, "tasks_done": done, "tasks_total": total, **percent}

    def _counted(self, job: int, data: Any) -> tuple[int, int]:
        done, total = data.numCompletedTasks(), data.numTasks() - data.numSkippedTasks()
        if data.status().name() != "RUNNING":
            self._finished[job] = (done, max(done, total))
            return self._finished[job]
        return done, max(done, total)


def description(data: Any) -> str:
    words = data.description()
    return str(words.get()) if words.isDefined() else ""
