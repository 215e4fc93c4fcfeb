# SPDX-License-Identifier: Apache-2.0
"""What every engine must do. A test class inherits the contract and provides the fixture ``subject``."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from itertools import count
from typing import Any, ClassVar, TypeVar
from uuid import uuid4

from lakehand.spi import EngineState, EngineStatus, ExecuteEngine, Handle, Json, LeaseGrant, Unavailable, Work

LONG = timedelta(minutes=10)
SHORT = timedelta(seconds=3)
NO_TIME = timedelta(milliseconds=1)

T = TypeVar("T")
_run = uuid4().hex[:6]  # a home may outlive the tests
_numbers = count(1)


def eventually(condition: Callable[[], T], within: float = 120.0) -> T:
    """The first true result of the condition; fails when there is none within so many seconds."""
    deadline = time.monotonic() + within
    while not (result := condition()):
        assert time.monotonic() < deadline, f"not true within {within} s"
        time.sleep(0.02)
    return result


class EngineUnderTest(ABC):
    """An open engine, and the things that its tests need to do to it."""

    engine: ExecuteEngine
    clock_survives_a_crash: ClassVar[bool] = False  # heartbeat tokens from before are still valid
    many: ClassVar[int] = 12  # works that one test runs together; less where each starts a process of its own

    @abstractmethod
    def reopen(self) -> None:
        """Replace ``engine`` by a new object on the same home, as a restarted service would."""

    @abstractmethod
    def crash(self) -> None:
        """Kill whatever runs the work, at once, and wait until it is dead."""

    @abstractmethod
    def runs(self, handle: Handle) -> int:
        """How often the work was really run."""

    def work(self, **parameters: Any) -> Work:
        """A work that touches no table and gives back ``{"rows": rows}``.

        Parameters, all optional: ``rows``, ``pause`` (milliseconds per row), ``partitions`` (tasks), ``fail`` (a
        message to fail with), ``notes`` (facts to publish at the start, under ``notes`` of its progress). Lakehand's
        own job ``probe`` does this on Spark; override it for an engine that runs something else.
        """
        return Work(job="probe", parameters=parameters, table="db.probe", location="none")

    @property
    def slow(self) -> Work:
        """Some minutes, in many small tasks."""
        return self.work(rows=40_000, partitions=400, pause=10)

    def has_begun(self, progress: Mapping[str, Json]) -> bool:
        """Whether the progress of ``slow`` shows that some of it is done."""
        done, total = progress.get("tasks_done"), progress.get("tasks_total")
        return isinstance(done, int) and isinstance(total, int) and 0 < done < total

    def wake(self) -> None:
        """Make an engine that sleeps without work begin to run its clock."""

    def heartbeat_token(self) -> str:
        def tended() -> str | None:
            self.wake()
            self.engine.tend()
            return self.engine.heartbeat_token()

        return eventually(tended) or ""

    def submit(self, work: Work, *, time_to_live: timedelta = LONG, heartbeat_token: str | None = None) -> Handle:
        """With the engine's current heartbeat token, unless another is given; an empty one means none."""
        handle = Handle(f"test-{_run}-{next(_numbers)}")
        self.again(work, handle, time_to_live=time_to_live, heartbeat_token=heartbeat_token)
        return handle

    def again(
        self, work: Work, handle: Handle, *, time_to_live: timedelta = LONG, heartbeat_token: str | None = None
    ) -> None:
        now = (self.heartbeat_token() if heartbeat_token is None else heartbeat_token) or None

        def accepted() -> bool:
            try:
                self.engine.submit(work, handle, LeaseGrant(heartbeat_token=now, time_to_live=time_to_live))
            except Unavailable:
                return False
            return True

        eventually(accepted)

    def renew(self, handle: Handle, time_to_live: timedelta = LONG) -> None:
        self.engine.renew([handle], LeaseGrant(heartbeat_token=self.heartbeat_token(), time_to_live=time_to_live))

    def status(self, handle: Handle) -> EngineStatus:
        return self.engine.status([handle])[handle]

    def state(self, handle: Handle) -> EngineState:
        return self.status(handle).state

    def wait_for(self, handle: Handle, *states: EngineState) -> EngineStatus:
        def arrived() -> EngineStatus | None:
            self.engine.tend()
            status = self.status(handle)
            assert not status.state.is_over or status.state in states, status
            return status if status.state in states else None

        found = eventually(arrived)
        assert found is not None
        return found

    def run(self, work: Work) -> EngineStatus:
        return self.wait_for(self.submit(work), EngineState.SUCCEEDED)


class ExecuteEngineContract:
    def test_work_runs_and_its_result_waits_until_it_is_forgotten(self, subject: EngineUnderTest) -> None:
        handle = subject.submit(subject.work(rows=1234))
        status = subject.wait_for(handle, EngineState.SUCCEEDED)
        assert status.result["rows"] == 1234
        assert status.seconds is not None
        assert subject.status(handle) == status

        subject.engine.forget([handle])
        assert subject.state(handle) is EngineState.ABSENT

    def test_the_same_handle_again_changes_nothing(self, subject: EngineUnderTest) -> None:
        work = subject.work(rows=200, pause=5)
        handle = subject.submit(work)
        for state in (EngineState.RUNNING, EngineState.SUCCEEDED):
            subject.again(work, handle)
            subject.wait_for(handle, state, EngineState.SUCCEEDED)
        subject.again(work, handle)
        subject.run(subject.work())

        assert subject.state(handle) is EngineState.SUCCEEDED
        assert subject.runs(handle) == 1

    def test_many_works_run_in_several_queues(self, subject: EngineUnderTest) -> None:
        works = [replace(subject.work(rows=n), queue=f"q{n % 3}") for n in range(subject.many)]
        handles = [subject.submit(work) for work in works]
        rows = [subject.wait_for(handle, EngineState.SUCCEEDED).result["rows"] for handle in handles]

        assert rows == list(range(subject.many))

    def test_it_is_called_from_several_threads_at_once(self, subject: EngineUnderTest) -> None:
        def served(rows: int) -> Json:
            handle = subject.submit(subject.work(rows=rows))
            found = subject.wait_for(handle, EngineState.SUCCEEDED).result["rows"]
            subject.engine.forget([handle])
            return found

        with ThreadPoolExecutor(subject.many // 2) as pool:
            assert list(pool.map(served, range(subject.many))) == list(range(subject.many))

    def test_an_unknown_handle_is_absent_and_cancelling_it_does_nothing(self, subject: EngineUnderTest) -> None:
        subject.engine.cancel(Handle("never-given"))
        assert subject.state(Handle("never-given")) is EngineState.ABSENT

    def test_a_failure_names_its_cause(self, subject: EngineUnderTest) -> None:
        handle = subject.submit(subject.work(fail="the disk is on fire"))
        status = subject.wait_for(handle, EngineState.FAILED)

        assert status.error_class
        assert "the disk is on fire" in status.message
        assert "the disk is on fire" in subject.engine.logs(handle)

    def test_logs_are_read_on_from_an_offset(self, subject: EngineUnderTest) -> None:
        handle = subject.submit(subject.work())
        subject.wait_for(handle, EngineState.SUCCEEDED)
        whole = subject.engine.logs(handle)

        assert whole.startswith(subject.engine.logs(handle, limit=10))
        assert subject.engine.logs(handle, offset=10) == whole[10:]

    def test_running_work_reports_its_progress(self, subject: EngineUnderTest) -> None:
        handle = subject.submit(subject.slow)

        def has_begun() -> bool:
            status = subject.wait_for(handle, EngineState.RUNNING, EngineState.QUEUED)
            return subject.has_begun(status.progress)

        eventually(has_begun)
        subject.engine.cancel(handle)
        subject.wait_for(handle, EngineState.CANCELED)

    def test_running_work_is_canceled(self, subject: EngineUnderTest) -> None:
        handle = subject.submit(subject.slow)
        subject.wait_for(handle, EngineState.RUNNING)
        subject.engine.cancel(handle)

        subject.wait_for(handle, EngineState.CANCELED)

    def test_waiting_work_is_canceled_and_never_runs(self, subject: EngineUnderTest) -> None:
        handle = subject.submit(subject.work(), heartbeat_token="")
        subject.engine.cancel(handle)
        subject.wait_for(handle, EngineState.CANCELED)
        subject.renew(handle)
        subject.run(subject.work())

        assert subject.runs(handle) == 0

    def test_work_without_a_heartbeat_token_waits_for_a_renewal_with_one(self, subject: EngineUnderTest) -> None:
        handle = subject.submit(subject.work(), heartbeat_token="")
        subject.run(subject.work())
        assert subject.state(handle) is EngineState.QUEUED

        subject.renew(handle)
        subject.wait_for(handle, EngineState.SUCCEEDED)

    def test_a_lease_that_is_over_on_arrival_starts_nothing(self, subject: EngineUnderTest) -> None:
        handle = subject.submit(subject.work(), time_to_live=NO_TIME)
        subject.run(subject.work())

        assert subject.state(handle) is EngineState.QUEUED

    def test_a_heartbeat_token_of_another_run_starts_nothing(self, subject: EngineUnderTest) -> None:
        handle = subject.submit(subject.work(), heartbeat_token="another:1")  # noqa: S106
        subject.run(subject.work())

        assert subject.state(handle) is EngineState.QUEUED

    def test_work_stops_when_its_lease_runs_out(self, subject: EngineUnderTest) -> None:
        handle = subject.submit(subject.slow, time_to_live=SHORT)

        def has_started() -> bool:  # an engine may need longer to start than the lease lasts
            subject.renew(handle, SHORT)
            return subject.state(handle) is not EngineState.QUEUED

        eventually(has_started)
        status = subject.wait_for(handle, EngineState.FAILED, EngineState.LOST)

        assert (status.state, status.error_class) in {("failed", "lease-expired"), ("lost", "")}
        assert subject.runs(handle) == 1

    def test_work_goes_on_while_its_lease_is_renewed(self, subject: EngineUnderTest) -> None:
        handle = subject.submit(subject.work(rows=1000, partitions=20, pause=10), time_to_live=SHORT)

        def is_over() -> bool:
            subject.renew(handle, SHORT)
            return subject.state(handle).is_over

        eventually(is_over)
        status = subject.wait_for(handle, EngineState.SUCCEEDED)
        assert status.seconds is not None
        assert status.seconds > SHORT.total_seconds()

    def test_a_restarted_service_finds_its_running_work_and_the_result(self, subject: EngineUnderTest) -> None:
        handle = subject.submit(subject.work(rows=400, pause=5))
        subject.wait_for(handle, EngineState.RUNNING)
        subject.reopen()
        subject.wait_for(handle, EngineState.SUCCEEDED)
        subject.reopen()

        assert subject.state(handle) is EngineState.SUCCEEDED
        assert subject.runs(handle) == 1

    def test_after_a_crash_running_work_is_lost_and_waiting_work_needs_a_new_token(
        self, subject: EngineUnderTest
    ) -> None:
        running = subject.submit(subject.work(rows=40_000, pause=10, notes={"instant": "20261115"}))
        eventually(lambda: subject.status(running).progress.get("notes"))
        before = subject.heartbeat_token()
        waiting = subject.submit(subject.work(), heartbeat_token="")
        subject.crash()
        late = subject.submit(subject.work(), heartbeat_token=before)
        subject.wait_for(running, EngineState.LOST)
        subject.renew(waiting)
        subject.wait_for(waiting, EngineState.SUCCEEDED)

        lost = subject.status(running)
        assert (lost.state, lost.progress["notes"]) == (EngineState.LOST, {"instant": "20261115"})
        assert subject.runs(running) == 1
        if not subject.clock_survives_a_crash:
            assert subject.state(late) is EngineState.QUEUED
