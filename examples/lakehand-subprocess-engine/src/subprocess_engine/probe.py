# SPDX-License-Identifier: Apache-2.0
"""A job that touches no table: for whoever wants to see this engine run, wait, fail or stop."""

import time
from typing import Any

from lakehand.jobs.job import Job


def run(job: Job) -> dict[str, Any]:
    wanted = job.parameters
    for key, value in wanted.get("notes", {}).items():
        job.note(key, value)
    job.phase("counting")
    rows, pause = int(wanted.get("rows", 1000)), float(wanted.get("pause", 0)) / 1000
    for row in range(rows if pause else 0):
        time.sleep(pause)
        if row % 100 == 10:
            job.note("rows", row)
    if message := wanted.get("fail"):
        raise RuntimeError(message)
    job.check()
    return {"rows": rows}
