# SPDX-License-Identifier: Apache-2.0
"""What a job tells, and when it is stopped."""

import json
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from lakehand.jobs.attempt import JobAttempt, UnknownJob, function_called, job_called
from lakehand.jobs.job import Job, JobCanceled
from lakehand.jobs.leases import Heartbeats, Leases, clock
from lakehand.jobs.spool import FOLDERS, Spool

NO_SPARK = cast(SparkSession, None)


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    for name in FOLDERS:
        (tmp_path / name).mkdir()
    return Spool(tmp_path)


@pytest.fixture
def leases() -> Leases:
    heartbeats = Heartbeats("boot")
    heartbeats.tick(clock())
    return Leases(heartbeats)


def attempt(spool: Spool, leases: Leases, **item: Any) -> JobAttempt:
    leases.grant("h", "boot:1", 3600.0)
    return JobAttempt(spool, leases, {"handle": "h", **item}, "boot")


def test_a_note_is_in_the_running_file_at_once(spool: Spool, leases: Leases) -> None:
    job = Job(session=NO_SPARK, parameters={}, record=attempt(spool, leases))
    job.note("instant", "20261115")

    assert '"notes": {"instant": "20261115"}' in (spool.running / "h.json").read_text()


def test_a_job_that_was_canceled_stops_at_its_next_check(spool: Spool, leases: Leases) -> None:
    record = attempt(spool, leases)
    job = Job(session=NO_SPARK, parameters={}, record=record)
    job.check()
    record.is_canceled = True

    with pytest.raises(JobCanceled, match="canceled"):
        job.check()


def test_a_job_without_a_lease_stops_at_its_next_check(spool: Spool, leases: Leases) -> None:
    job = Job(session=NO_SPARK, parameters={}, record=attempt(spool, leases))
    leases.drop("h")

    with pytest.raises(JobCanceled, match="lease-expired"):
        job.check()


def test_the_log_has_one_byte_per_character(spool: Spool, leases: Leases) -> None:
    attempt(spool, leases).write("zażółć")

    assert "za\\u017c\\xf3\\u0142\\u0107" in (spool.logs / "h.log").read_text(encoding="ascii")


def test_an_unknown_job_fails_by_name(spool: Spool, leases: Leases) -> None:
    (spool.inbox / "h.json").write_text("{}")
    attempt(spool, leases, job="no-such.job").run(NO_SPARK, lambda: None)

    assert "'no-such.job'" in (spool.done / "h.json").read_text()
    assert not (spool.running / "h.json").exists()


def test_an_attempt_that_ended_is_not_shown_as_running_again(spool: Spool, leases: Leases) -> None:
    (spool.inbox / "h.json").write_text("{}")
    record = attempt(spool, leases, job="none")
    record.run(NO_SPARK, lambda: None)
    record.publish()

    assert not (spool.running / "h.json").exists()


def test_work_that_was_taken_back_is_not_run(spool: Spool, leases: Leases) -> None:
    attempt(spool, leases, job="probe").run(NO_SPARK, lambda: None)

    assert not (spool.done / "h.json").exists()


@pytest.mark.parametrize("name", ["", "../probe", "os", "driver", "hudi..x", "Probe", "probe.", "spool"])
def test_only_jobs_can_be_named(name: str) -> None:
    with pytest.raises(UnknownJob):
        job_called(name)


def test_a_job_is_found_by_its_name() -> None:
    assert function_called("probe").__module__ == "lakehand.jobs.probe"


def test_the_running_file_and_the_outcome_name_the_application_before_the_job_says_anything(
    spool: Spool, leases: Leases
) -> None:
    application = {"application": "app-1", "application_url": ""}
    leases.grant("h", "boot:1", 3600.0)
    item = {"handle": "h", "job": "no.such"}
    (spool.inbox / "h.json").write_text(json.dumps(item))
    running: list[str] = []

    record = JobAttempt(spool, leases, item, "boot", application)
    record.run(NO_SPARK, lambda: running.append((spool.running / "h.json").read_text()))

    for text in (*running, (spool.done / "h.json").read_text()):
        assert json.loads(text).items() >= {"boot": "boot", **application}.items()
    assert len(running) == 1
