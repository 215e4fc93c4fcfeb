# SPDX-License-Identifier: Apache-2.0
"""The published contract of engines on this one, with real processes, and what is its own."""

import os
import signal
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from subprocess_engine import SubprocessEngine
from subprocess_engine.folder import Folder

from lakehand.spi import EngineContext, EngineState, Handle, Invalid, Json, Work
from lakehand.testing import EngineUnderTest, ExecuteEngineContract, eventually

DEAF = """
import signal, time

def run(job):
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    time.sleep(600)
"""
ENVIRONMENT = """
import os

def run(job):
    return {"settings": [key for key in os.environ if key.startswith("LAKEHAND_")]}
"""


class SubprocessUnderTest(EngineUnderTest):
    engine: SubprocessEngine
    clock_survives_a_crash = True  # it is the machine's

    def __init__(self, home: Path) -> None:
        self.home = home
        self.reopen()

    def reopen(self) -> None:
        self.engine = SubprocessEngine()
        self.engine.open({"slots": "4"}, EngineContext(home=self.home))

    def work(self, **parameters: Any) -> Work:
        return Work(job="subprocess_engine.probe:run", parameters=parameters, table="db.probe", location="none")

    def has_begun(self, progress: Mapping[str, Json]) -> bool:
        return progress.get("phase") == "counting" and bool(progress.get("notes"))

    def crash(self) -> None:
        def is_dead() -> bool:
            running = [f for f in map(Folder, (self.home / "works").iterdir()) if f.is_started and f.is_running()]
            for folder in running:
                kill_program_of(folder)
            return not running

        eventually(is_dead)

    def runs(self, handle: Handle) -> int:
        return self.engine.logs(handle).count("on db.probe")


def kill_program_of(folder: Folder) -> None:
    """Ends the process whose command line names the folder, unless it has ended meanwhile."""
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and str(folder.root).encode() in command_line(process):
            os.kill(int(process.name), signal.SIGKILL)


def command_line(process: Path) -> list[bytes]:
    try:
        return (process / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


@pytest.fixture
def subject(tmp_path: Path) -> Iterator[SubprocessUnderTest]:
    subject = SubprocessUnderTest(tmp_path)
    yield subject
    subject.crash()


class TestSubprocessEngine(ExecuteEngineContract):
    def test_a_job_for_spark_is_refused_with_a_reason(self, subject: SubprocessUnderTest) -> None:
        handle = subject.submit(Work(job="hudi.compaction", parameters={}, table="db.probe", location="none"))
        status = subject.wait_for(handle, EngineState.FAILED)

        assert "'hudi.compaction' is a job for Spark" in status.message

    def test_work_beyond_the_slots_waits(self, subject: SubprocessUnderTest) -> None:
        handles = [subject.submit(subject.slow) for _ in range(5)]
        for handle in handles[:4]:
            subject.wait_for(handle, EngineState.RUNNING)

        assert subject.state(handles[4]) is EngineState.QUEUED
        assert subject.engine.health().detail == "4 of 4 slots are taken"

    def test_a_job_that_does_not_listen_is_ended_after_its_lease(self, subject: SubprocessUnderTest) -> None:
        deaf = Work(job="deaf_job:run", parameters={}, table="db.probe", location="none")
        handle = subject.submit(deaf, time_to_live=timedelta(seconds=3))
        status = subject.wait_for(handle, EngineState.LOST)

        assert status.message.startswith("its process ended without a result; its log ends with: deaf_job:run on")

    def test_an_unknown_property_is_refused_by_name(self, tmp_path: Path) -> None:
        with pytest.raises(Invalid, match="no property 'slot'; it has slots"):
            SubprocessEngine().open({"slot": "4"}, EngineContext(home=tmp_path))

    def test_the_secrets_of_the_service_are_not_given_to_jobs(
        self, subject: SubprocessUnderTest, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("LAKEHAND_TOKENS", "me=secret")
        handle = subject.submit(Work(job="env_job:run", parameters={}, table="db.probe", location="none"))

        assert subject.wait_for(handle, EngineState.SUCCEEDED).result == {"settings": []}


@pytest.fixture(autouse=True)
def jobs(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs as a plugin would bring them."""
    folder = tmp_path_factory.mktemp("jobs")
    (folder / "deaf_job.py").write_text(DEAF)
    (folder / "env_job.py").write_text(ENVIRONMENT)
    monkeypatch.setenv("PYTHONPATH", f"{folder}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
