# SPDX-License-Identifier: Apache-2.0
"""Runs the real Hudi 1.2.1 writer; the value of a row is `1000 * commit + row`, counting rows from 0."""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.hudi_client.project import build, java_program

NONE: Mapping[str, str] = {}


class WriterCrashed(Exception):
    """The writer ended without its closing line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    number: int
    instant: str | None  # none when not even the start of the commit worked
    ok: bool
    completed: bool  # the data is in the table, even if the call failed afterwards
    error: str | None
    duration: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterRun:
    commits: tuple[Commit, ...]
    pending_compactions: tuple[str, ...]
    pending_clusterings: tuple[str, ...]
    pending_cleans: tuple[str, ...]
    exit_code: int
    stderr: str

    @property
    def ok(self) -> bool:
        return self.exit_code == 0

    @property
    def errors(self) -> tuple[str, ...]:
        return tuple(commit.error for commit in self.commits if commit.error is not None)

    @property
    def instants(self) -> tuple[str, ...]:
        return tuple(commit.instant for commit in self.commits if commit.instant is not None)


def expected_sum(*, rows: int, last_commit: int) -> int:
    """What the column `value` adds up to once the last commit has written every row."""
    return 1000 * last_commit * rows + rows * (rows - 1) // 2


def run(
    path: str | Path,
    *,
    name: str = "trips",
    commits: int = 1,
    rows: int = 20,
    partitions: int = 1,
    start_commit: int = 1,
    uri: str | None = None,
    actions: Sequence[str] = ("compaction",),
    callback: str | None = None,
    metadata: bool = False,
    max_delta_commits: int = 2,
    table_type: str = "MERGE_ON_READ",
    options: Mapping[str, str] = NONE,
    jar: Path | None = None,
    timeout: timedelta = timedelta(minutes=5),
) -> WriterRun:
    """Write `commits` commits and wait for them. Without `uri` the writer only leaves its plans on the timeline.

    Beware of clustering: unlike Spark's writer this one goes on updating file groups that a pending clustering plan
    will replace, and whoever runs that plan later loses those updates. End its commits with the plan, or only insert.
    """
    words: dict[str, object] = {"path": path, "name": name, "commits": commits, "rows": rows, "partitions": partitions}
    words |= {"start-commit": start_commit, "max-delta-commits": max_delta_commits, "type": table_type}
    words |= {"uri": uri, "callback": callback, "actions": ",".join(actions), "metadata": str(metadata).lower()}
    arguments = [word for key, value in words.items() if value is not None for word in (f"--{key}", str(value))]
    arguments += [word for key, value in options.items() for word in ("--option", f"{key}={value}")]
    return start_and_wait(jar or build(), arguments, timeout)


def start_and_wait(jar: Path, arguments: Sequence[str], timeout: timedelta) -> WriterRun:
    java = [java_program("java") or "java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    ended = subprocess.run(
        [*java, "-jar", str(jar), *arguments],
        check=False,
        capture_output=True,
        encoding="utf-8",
        env=os.environ | {"LC_ALL": "C.UTF-8"},  # so that Java reads a path beyond ASCII as it was given
        timeout=timeout.total_seconds(),
    )
    return to_run(ended)


def to_run(ended: "subprocess.CompletedProcess[str]") -> WriterRun:
    lines: list[dict[str, Any]] = [json.loads(line) for line in ended.stdout.splitlines()]
    if not lines or not lines[-1].get("done"):
        raise WriterCrashed(f"exit code {ended.returncode}; {ended.stdout}\n{ended.stderr[-3000:]}")
    *commits, ending = lines
    return WriterRun(
        commits=tuple(to_commit(line) for line in commits),
        pending_compactions=tuple(ending["pending_compactions"]),
        pending_clusterings=tuple(ending["pending_clusterings"]),
        pending_cleans=tuple(ending["pending_cleans"]),
        exit_code=ended.returncode,
        stderr=ended.stderr,
    )


def to_commit(line: Mapping[str, Any]) -> Commit:
    return Commit(
        number=line["commit"],
        instant=line.get("instant"),
        ok=line["ok"],
        completed=line["completed"],
        error=line.get("error"),
        duration=timedelta(milliseconds=line["millis"]),
    )
