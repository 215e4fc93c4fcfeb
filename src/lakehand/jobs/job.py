# SPDX-License-Identifier: Apache-2.0
"""What a job gets: a session of its own, its parameters, and ways to report progress and to learn that it must stop."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lakehand.jobs.boundary import JobBoundary, boundary_of

if TYPE_CHECKING:  # an engine without Spark gives jobs that need none
    from pyspark.sql import SparkSession


class JobCanceled(Exception):
    """The job was asked to stop, or its lease has run out."""


@dataclass
class Record:
    """What a running attempt reports. This one keeps it in memory; the driver's own also writes it to files."""

    phase: str = ""
    notes: dict[str, Any] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)

    def stop_reason(self) -> str:
        """Why the job must stop now; empty while it may go on."""
        return ""

    def publish(self) -> None:
        """Make what changed visible outside of the job."""

    def use_lock(self, path: str) -> None:
        """Say which lock file on a local disk the job may hold from now on."""

    def write(self, text: str) -> None:
        self.lines.append(text)


@dataclass
class Job:
    session: "SparkSession"
    parameters: dict[str, Any]
    handle: str = "job"
    record: Record = field(default_factory=Record)

    @property
    def boundary(self) -> JobBoundary:
        """What the job may touch. A job checks it first, and again before it commits or deletes."""
        return boundary_of(self.parameters)

    def phase(self, text: str) -> None:
        """Report what happens now."""
        self.record.phase = text
        self.record.write(text)
        self.record.publish()

    def note(self, key: str, value: Any) -> None:
        """Publish a fact at once: it can be read even if the driver dies in the next moment."""
        self.record.notes[key] = value
        self.record.write(f"{key} = {value}")
        self.record.publish()

    def check(self) -> None:
        """Call between phases: raises when the job may not go on."""
        if reason := self.record.stop_reason():
            raise JobCanceled(reason)

    def log(self, text: str) -> None:
        self.record.write(text)
