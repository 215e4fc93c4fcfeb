# SPDX-License-Identifier: Apache-2.0
"""The driver's loop, step by step, without Spark: what it starts, what it lets wait, when it leaves."""

import json
import os
import socket
import sys
from argparse import Namespace
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from lakehand.jobs.attempt import JobAttempt
from lakehand.jobs.driver import (
    MOST_SOCKETS,
    Driver,
    open_sockets,
    prepare_remote,
    remove_own_folder_from_import_path,
)
from lakehand.jobs.lease_watchdog import ProcessGroup
from lakehand.jobs.leases import clock, machine
from lakehand.jobs.spool import FOLDERS, MOST_BYTES, Document, Spool
from tests.kit.sentences import Sentences

WANTED = {
    "threads": 2, "idle_timeout": 600.0, "max_age": 0.0, "max_rss_mb": 0, "lease_grace": 5.0, "once": False,
    "remote": False, "code": "",
}  # fmt: skip


class Recorder(Driver):
    """Starts nothing, but says what it would have started."""

    def __init__(self, root: Path, **wanted: Any) -> None:
        spark = SimpleNamespace(sparkContext=SimpleNamespace(applicationId="local", uiWebUrl=None))
        super().__init__(
            Spool(root), cast(SparkSession, spark), Namespace(**{**WANTED, **wanted}), cast(ProcessGroup, None)
        )
        self.started: list[str] = []
        self.heartbeats.tick(clock())

    def _start(self, item: Document) -> None:
        self.started.append(item["handle"])
        self.spool.accept(item["handle"])

    @property
    def token(self) -> str:
        return self.heartbeats.token

    def submit(self, handle: str, *, token: str | None, at: int = 0) -> None:
        item = {"handle": handle, "job": "probe", "heartbeat_token": token, "time_to_live": 60.0, "at": at}
        (self.spool.inbox / f"{handle}.json").write_text(json.dumps(item))

    def renew(self, *handles: str, token: str | None = None) -> None:
        renewal = {"handles": handles, "heartbeat_token": token or self.token, "time_to_live": 60.0}
        (self.spool.lease / "1.json").write_text(json.dumps(renewal))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in FOLDERS:
        (tmp_path / name).mkdir()
    return tmp_path


@pytest.fixture
def driver(root: Path) -> Recorder:
    return Recorder(root)


def test_work_with_a_lease_starts_the_oldest_first_as_far_as_there_are_threads(driver: Recorder) -> None:
    for handle, at in (("a", 3), ("b", 1), ("c", 2)):
        driver.submit(handle, token=driver.token, at=at)
    driver.step()

    assert driver.started == ["b", "c"]


def test_work_without_a_token_waits_for_a_renewal_that_has_one(driver: Recorder) -> None:
    driver.submit("h", token=None)
    driver.step()
    assert driver.started == []

    driver.renew("h")
    driver.step()
    assert driver.started == ["h"]


def test_a_renewal_with_the_token_of_an_earlier_driver_starts_nothing(driver: Recorder) -> None:
    driver.submit("h", token="former:7")
    driver.renew("h", token="former:8")
    driver.step()

    assert driver.started == []


def test_a_renewal_counts_for_work_that_came_just_before_it(driver: Recorder) -> None:
    driver.submit("h", token=None)
    driver.renew("h")
    driver.step()

    assert driver.started == ["h"]


def test_an_accepted_handle_is_not_accepted_again(driver: Recorder) -> None:
    for _ in range(2):
        driver.submit("h", token=driver.token)
        driver.step()
        driver.step()

    assert driver.started == ["h"]
    assert driver.spool.waiting() == []


def test_a_handle_with_a_result_is_not_accepted_again(driver: Recorder) -> None:
    driver.spool.finish("h", {"state": "succeeded"})
    driver.submit("h", token=driver.token)
    driver.step()

    assert driver.started == []


def test_a_work_item_that_cannot_be_read_fails_and_stops_nobody(driver: Recorder) -> None:
    (driver.spool.inbox / "bad.json").write_text('{"handle": ')
    driver.submit("good", token=driver.token)
    driver.step()

    assert json.loads((driver.spool.done / "bad.json").read_text())["error_class"] == "unreadable-work-item"
    assert driver.started == ["good"]


def work_item_with(**values: Any) -> str:
    return json.dumps(
        {"handle": "bad", "job": "probe", "heartbeat_token": None, "time_to_live": 60.0, "at": 1, **values}
    )


MALFORMED = {
    "a time to live that is a text": work_item_with(time_to_live="abc"),
    "a time to live that is not a number": work_item_with(time_to_live=float("nan")),
    "an endless time to live": work_item_with(time_to_live=float("inf")),
    "a time to live before now": work_item_with(time_to_live=-1),
    "a time to live forever": work_item_with(time_to_live=10**30),
    "a time to live of a thousand digits": work_item_with(time_to_live=10**1000),
    "a time to live that is a flag": work_item_with(time_to_live=True),
    "no time to live": work_item_with(time_to_live=None),
    "a heartbeat token that is a number": work_item_with(heartbeat_token=7),
    "a heartbeat token of five thousand digits": work_item_with(heartbeat_token="boot:" + "9" * 5000),
    "a time that is a text": work_item_with(at="now"),
    "a job that is a list": work_item_with(job=["probe"]),
    "no job": work_item_with(job=None),
    "parameters that are a list": work_item_with(parameters=[1]),
    "a location that is a number": work_item_with(location=1),
    "the handle of another": work_item_with(handle="other"),
    "a handle that is an object": work_item_with(handle={}),
    "a list": "[]",
    "a text that is not closed": '{"handle": "bad',
    "nothing": "",
    "bytes that are not text": "\udcff",
    "a hundred thousand brackets": "[" * 100_000,
}


@pytest.mark.parametrize("text", MALFORMED.values(), ids=list(MALFORMED))
def test_a_malformed_work_item_is_refused_with_its_reason_and_the_driver_goes_on(
    driver: Recorder, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (driver.spool.inbox / "bad.json").write_bytes(text.encode(errors="surrogateescape"))
    driver.submit("good", token=driver.token)
    driver.step()
    driver.step()

    outcome = json.loads((driver.spool.done / "bad.json").read_text())
    assert (outcome["state"], outcome["error_class"]) == ("failed", "unreadable-work-item")
    assert "work item bad " in capsys.readouterr().err
    assert driver.started == ["good"]
    assert driver.spool.waiting() == []
    assert not (driver.spool.running / "bad.json").exists()


def no_file(kind: str, file: Path) -> None:
    outside = file.parents[2] / "outside.json"
    outside.write_text(work_item_with())
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "link":
        file.symlink_to(outside)
    elif kind == "folder":
        (file / "inner").mkdir(parents=True)
    else:
        file.write_bytes(b" " * (MOST_BYTES + 1))


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", ["pipe", "link", "folder", "huge"])
def test_what_is_no_regular_file_is_no_work_item_and_no_renewal(driver: Recorder, kind: str) -> None:
    for folder in (driver.spool.inbox, driver.spool.lease, driver.spool.cancel):
        no_file(kind, folder / "bad.json")
    driver.submit("good", token=driver.token)
    driver.step()
    driver.step()

    assert json.loads((driver.spool.done / "bad.json").read_text())["error_class"] == "unreadable-work-item"
    assert driver.started == ["good"]
    assert [*driver.spool.inbox.iterdir(), *driver.spool.lease.iterdir(), *driver.spool.cancel.iterdir()] == []


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", ["pipe", "link", "folder", "huge"])
def test_a_driver_starts_whatever_an_earlier_one_left_running(driver: Recorder, kind: str) -> None:
    no_file(kind, driver.spool.running / "bad.json")
    driver.spool.clear()

    assert json.loads((driver.spool.done / "bad.json").read_text())["state"] == "lost"
    assert list(driver.spool.running.iterdir()) == []


def test_a_name_that_can_be_no_handle_is_removed_from_the_inbox(driver: Recorder) -> None:
    for name in ("notes.txt", "a b.json", "-x.json", "json"):
        (driver.spool.inbox / name).write_text(work_item_with())
    driver.step()

    assert list(driver.spool.inbox.iterdir()) == []
    assert list(driver.spool.done.iterdir()) == []


@pytest.mark.parametrize(
    "renewal",
    [
        {"handles": 5, "time_to_live": 60.0},
        {"handles": [["h"]], "time_to_live": 60.0},
        {"handles": ["h"], "time_to_live": "abc"},
        {"handles": ["h"], "time_to_live": float("inf")},
        {"handles": ["h"], "heartbeat_token": {}, "time_to_live": 60.0},
        {},
    ],
)
def test_a_malformed_renewal_renews_nothing_and_the_driver_goes_on(driver: Recorder, renewal: Document) -> None:
    driver.submit("h", token=None)
    (driver.spool.lease / "1.json").write_text(json.dumps({"heartbeat_token": driver.token, **renewal}))
    driver.submit("good", token=driver.token)
    driver.step()

    assert driver.started == ["good"]
    assert list(driver.spool.lease.iterdir()) == []


def test_a_renewal_that_cannot_be_read_stops_nobody(driver: Recorder) -> None:
    (driver.spool.lease / "1.json").write_text("nonsense")
    driver.submit("good", token=driver.token)
    driver.step()

    assert driver.started == ["good"]


def test_a_driver_that_leaves_takes_nothing_new(driver: Recorder, sentences: Sentences) -> None:
    driver.spool.stop.touch()
    driver.submit("h", token=driver.token)
    driver.step()

    sentences.check("asked to stop", driver.leaving)
    assert driver.spool.waiting() == ["h"]


def test_a_cancel_wakes_the_monitor_and_not_the_loop(driver: Recorder) -> None:
    """The loop reads its event many times a second: a cancel through the same event would be lost."""
    attempt = driver.attempts["h"] = JobAttempt(driver.spool, driver.leases, {"handle": "h"}, "boot")
    (driver.spool.cancel / "h").touch()
    driver.step()

    assert attempt.is_canceled
    assert driver.monitor_wake_up.is_set()
    assert not driver.loop_wake_up.is_set()


def test_a_driver_leaves_when_it_is_idle_old_big_or_full_of_connections(root: Path, sentences: Sentences) -> None:
    idle, old, big, full = Recorder(root), Recorder(root, max_age=1.0), Recorder(root, max_rss_mb=100), Recorder(root)
    idle.last_event -= 601
    old.began -= 2
    big.rss_mb = 101
    full.sockets = MOST_SOCKETS + 1
    for driver in (idle, old, big, full):
        driver.step()

    sentences.check("idle", idle.leaving, seconds=600)
    sentences.check("old", old.leaving, seconds=1)
    sentences.check("big", big.leaving, most="100 MB")
    sentences.check("full of connections", full.leaving, connections=MOST_SOCKETS + 1)


def test_sockets_that_a_process_holds_are_counted_when_they_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    with ExitStack() as held:
        before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
        for _ in range(20):
            held.enter_context(socket.socket())
        assert open_sockets(os.getpid()) == 0
        monkeypatch.setattr("lakehand.jobs.driver.MOST_SOCKETS", 10)
        assert 20 <= open_sockets(os.getpid()) <= 20 + before


def test_what_a_dead_driver_left_running_is_lost_with_its_notes(driver: Recorder) -> None:
    driver.spool.publish_progress("h", {"handle": "h", "progress": {"notes": {"instant": "1"}}})
    driver.renew("h")
    driver.spool.clear()

    left = json.loads((driver.spool.done / "h.json").read_text())
    assert (left["state"], left["progress"]) == ("lost", {"notes": {"instant": "1"}})
    assert driver.spool.take_renewals() == []


def test_a_result_that_was_written_just_before_the_death_is_not_lost(driver: Recorder) -> None:
    driver.spool.finish("h", {"state": "succeeded"})
    driver.spool.publish_progress("h", {})
    driver.spool.clear()

    assert "succeeded" in (driver.spool.done / "h.json").read_text()
    assert not (driver.spool.running / "h.json").exists()


def test_a_library_is_found_although_a_folder_of_jobs_has_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    own = str(Path(sys.modules[Driver.__module__].__file__ or "").parent)
    monkeypatch.setattr(sys, "path", [own, *sys.path])
    monkeypatch.delitem(sys.modules, "lance", raising=False)

    remove_own_folder_from_import_path()

    found = find_spec("lance")
    assert found is not None
    assert found.origin != f"{own}/lance/__init__.py"


def test_an_application_leaves_when_its_work_is_over_and_not_before(root: Path, sentences: Sentences) -> None:
    driver = Recorder(root, once=True)
    driver.submit("1-1", token=None)
    driver.step()
    assert (driver.started, driver.leaving) == ([], "")

    driver.renew("1-1", token=f"{machine()}:{clock() - 0.001:.3f}")  # a token of the future grants nothing
    driver.step()
    driver.step()
    assert driver.started == ["1-1"]
    sentences.check("its work is over", driver.leaving)


def test_an_application_counts_no_lease_from_its_own_heartbeats(root: Path) -> None:
    driver = Recorder(root, once=True)
    driver.submit("1-1", token=driver.token)
    driver.step()
    assert driver.started == []


def test_an_application_on_another_machine_counts_its_lease_from_its_own_heartbeats_alone(root: Path) -> None:
    driver = Recorder(root, once=True, remote=True)
    driver.submit("1-1", token=f"{machine()}:{clock() - 0.001:.3f}")
    driver.step()
    assert driver.started == []

    driver.renew("1-1", token=driver.token)
    driver.step()
    assert driver.started == ["1-1"]


def test_an_application_that_does_not_find_its_folder_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="shared-folder"):
        prepare_remote(Spool(tmp_path / "absent"), cast(ProcessGroup, None))
