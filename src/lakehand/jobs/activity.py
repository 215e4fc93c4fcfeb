# SPDX-License-Identifier: Apache-2.0
"""What Spark is doing for one job tag: tasks done and in total, and the description of the latest Spark job."""

from typing import Any

from pyspark import SparkContext

from lakehand.jobs.work_items import Document


class Activity:
    """Counts over all Spark jobs of one tag. A finished Spark job is read once."""

    def __init__(self, context: SparkContext, tag: str) -> None:
        self._spark = context._jsc.sc()
        self._tag = tag
        self._finished: dict[int, tuple[int, int]] = {}

    def read(self) -> Document:
        tasks = dict(self._finished)
        text = ""
        for job in sorted(self._spark.statusTracker().getJobIdsForTag(self._tag)):
            if job not in tasks:
                data = self._spark.statusStore().job(job)
                tasks[job] = self._count(job, data)
                text = description(data) or text
        done = sum(done for done, _ in tasks.values())
        total = sum(total for _, total in tasks.values())
        percent = {"percent": done * 100 // total} if total else {}
        return {"activity": text, "tasks_done": done, "tasks_total": total, **percent}

    def _count(self, job: int, data: Any) -> tuple[int, int]:
        done, total = data.numCompletedTasks(), data.numTasks() - data.numSkippedTasks()
        if data.status().name() != "RUNNING":
            self._finished[job] = (done, max(done, total))
            return self._finished[job]
        return done, max(done, total)


def description(data: Any) -> str:
    text = data.description()
    return str(text.get()) if text.isDefined() else ""
