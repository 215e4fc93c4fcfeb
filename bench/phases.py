# SPDX-License-Identifier: Apache-2.0
"""Where the service's time goes: the phases of operations, from their stored times and the logs of their attempts."""

from datetime import datetime
from statistics import mean
from typing import Any

import httpx

from tests.kit.service import RunningService


def phases_of(service: RunningService, locations: set[str], threads: int) -> dict[str, float]:
    """Mean seconds per operation in each phase, and how busy the driver's threads were."""
    found = [o for o in service.operations(status="succeeded") if o["table"]["location"] in locations]
    rows = [moments(service, operation) for operation in found]
    began, ended = min(row[0] for row in rows), max(row[4] for row in rows)
    busy = sum(row[3] - row[2] for row in rows)
    names = ("stored → submitted", "submitted → started", "started → done", "done → settled")
    means = {name: mean(row[i + 1] - row[i] for row in rows) for i, name in enumerate(names)}
    return {
        **means,
        "first start": min(row[2] for row in rows) - began,
        "last done → last settled": ended - max(row[3] for row in rows),
        "share of the threads' time that jobs ran": 100 * busy / (threads * (ended - began)),
    }


def moments(service: RunningService, operation: dict[str, Any]) -> tuple[float, float, float, float, float]:
    """Stored, submitted, started and done by the driver, settled."""
    lines = log_of(service, int(operation["id"])).splitlines()
    times = [datetime.fromisoformat(line.split(" ", 1)[0]).timestamp() for line in (lines[0], lines[-1])]
    stored, submitted, settled = (moment(operation[key]) for key in ("created_at", "submitted_at", "finished_at"))
    return stored, submitted, times[0], times[1], settled


def moment(text: str) -> float:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def log_of(service: RunningService, operation: int) -> str:
    answer = httpx.get(f"{service.url}/api/v1/operations/{operation}/logs").raise_for_status()
    return str(answer.json()["text"])
