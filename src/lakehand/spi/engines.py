# SPDX-License-Identifier: Apache-2.0
"""What an engine implements: running work that is named by a handle of ours, under a lease that the work honours."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import ClassVar

from lakehand.domain.operations import Handle
from lakehand.domain.processes import Json
from lakehand.domain.tables import Catalog
from lakehand.domain.texts import Word
from lakehand.spi.metrics import PluginMetric


class EngineState(Word):
    QUEUED = "queued"  # accepted, not started
    RUNNING = "running"
    SUCCEEDED = "succeeded"  # by the job's own result; the table decides
    FAILED = "failed"
    CANCELED = "canceled"
    LOST = "lost"  # the engine is sure that it runs no more, and there is no result
    ABSENT = "absent"  # the engine was never given this handle
    UNKNOWN = "unknown"  # the engine does not know now

    @property
    def is_over(self) -> bool:
        return self in (EngineState.SUCCEEDED, EngineState.FAILED, EngineState.CANCELED, EngineState.LOST)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStatus:
    state: EngineState
    progress: Mapping[str, Json] = field(default_factory=dict)  # phase, tasks_done, tasks_total, percent
    result: Mapping[str, Json] = field(default_factory=dict)
    error_class: str = ""
    message: str = ""
    seconds: float | None = None  # how long the job itself ran
    external_id: str = ""  # where it runs, in the words of that system: the id of a Spark application, of a pod ...
    external_url: str = ""  # a page about it there (http or https), without any secret


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What an engine runs: a job by name with its parameters, and how it wants to be run."""

    job: str
    parameters: Mapping[str, Json]
    table: str  # for names and logs
    location: str
    queue: str = "default"
    operation: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseGrant:
    """How long work may go on: for ``time_to_live`` after the engine published ``heartbeat_token``.

    The holder reads the token, then renews its lease in the database, then renews at the engine. However late the
    message arrives, the work never outlives the lease, and no two clocks are compared.
    """

    heartbeat_token: str | None  # None: the engine had no running clock; the work waits for a renewal that has one
    time_to_live: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineContext:
    """What the service gives an engine when it opens it."""

    home: Path  # a folder of the engine's own
    formats: tuple[str, ...] = ()  # the formats that are switched on
    jars: Path | None = None  # the cache of downloaded jars
    catalogs: tuple[Catalog, ...] = ()  # of the settings; their properties may be secret
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)  # how to reach object stores; may be secret
    storage_schemes: tuple[str, ...] = ()  # the object stores that tables may be in
    umask: int | None = None  # for processes that write to tables; None: that of the service


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineHealth:
    is_up: bool
    detail: str
    restarts: int = 0
    facts: Mapping[str, Json] = field(default_factory=dict)


class ExecuteEngine(ABC):
    """Runs work. Holds no truth: the table's metadata does. Called from several threads at once."""

    name: ClassVar[str]

    @abstractmethod
    def open(self, properties: Mapping[str, str], context: EngineContext) -> None: ...

    @abstractmethod
    def close(self) -> None:
        """Let go without stopping running work: another service process may find it again."""

    @property
    @abstractmethod
    def capacity(self) -> int:
        """How many works are worth having here at once, waiting ones included."""

    @abstractmethod
    def heartbeat_token(self) -> str | None:
        """The engine's clock, as an opaque word; None while there is none."""

    @abstractmethod
    def submit(self, work: Work, handle: Handle, grant: LeaseGrant) -> None:
        """Take the work. The same handle a second time changes nothing. Returns at once; raises Unavailable."""

    @abstractmethod
    def renew(self, handles: Collection[Handle], grant: LeaseGrant) -> None: ...

    @abstractmethod
    def status(self, handles: Collection[Handle]) -> Mapping[Handle, EngineStatus]:
        """The state of each handle that was asked for."""

    @abstractmethod
    def cancel(self, handle: Handle) -> None:
        """Ask to stop; the status shows when it has. Unknown handles are ignored."""

    @abstractmethod
    def logs(self, handle: Handle, *, offset: int = 0, limit: int = 65536) -> str: ...

    def forget(self, handles: Collection[Handle]) -> None:
        """The results are stored: whatever the engine keeps of them may go, now or later."""

    def tend(self) -> None:
        """Called every second or so: watch, restart, recycle, stop when idle."""

    def metrics(self) -> Sequence[PluginMetric]:
        """What ``/metrics`` shows of it beside Lakehand's own numbers."""
        return ()

    @abstractmethod
    def health(self) -> EngineHealth: ...
