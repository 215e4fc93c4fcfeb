# SPDX-License-Identifier: Apache-2.0
"""The spool folder: the service's side and the driver's side are two programs that must agree on every name."""

import json
import os
import stat
import time
from datetime import timedelta
from pathlib import Path

import pytest

from lakehand.domain.errors import Invalid
from lakehand.domain.operations import Handle
from lakehand.engines.spark import spool as service
from lakehand.engines.spark.engine import status_of, with_history
from lakehand.jobs import spool as driver
from lakehand.jobs.held_locks import release_left
from lakehand.spi.engines import EngineState, EngineStatus, LeaseGrant, Work

H = Handle("7-1")
WORK = Work(job="probe", parameters={"rows": 1}, table="db.t", location="/t", queue="q", operation=7)
UNTIL = LeaseGrant(heartbeat_token="boot:3", time_to_live=timedelta(seconds=30))


@pytest.fixture
def ours(tmp_path: Path) -> service.SpoolClient:
    spool = service.SpoolClient(tmp_path / "spool")
    spool.make()
    return spool


@pytest.fixture
def theirs(ours: service.SpoolClient) -> driver.Spool:
    return driver.Spool(ours.root)


def state(ours: service.SpoolClient, *, is_alive: bool = True) -> EngineState:
    return status_of(H, ours.view([H]), is_alive=is_alive, is_silent=False).state


def test_both_sides_use_the_same_names(ours: service.SpoolClient, theirs: driver.Spool) -> None:
    assert service.FOLDERS == driver.FOLDERS
    assert (ours.stop, ours.state, ours.lock) == (theirs.stop, theirs.state, theirs.lock)
    assert ours.exit_reason == theirs.exit_reason


def test_the_folders_are_for_our_eyes_only(ours: service.SpoolClient) -> None:
    assert {stat.S_IMODE(folder.stat().st_mode) for folder in (ours.root, *ours.root.iterdir())} == {0o700}


def test_the_reason_of_an_end_is_never_seen_half_written(ours: service.SpoolClient) -> None:
    ours.note_exit("first")
    with ours.exit_reason.open() as seen:
        ours.note_exit("second")

        assert (seen.read(), ours.exit_reason.read_text()) == ("first\n", "second\n")


def test_work_passes_through_all_stages(ours: service.SpoolClient, theirs: driver.Spool) -> None:
    seen = [state(ours)]
    ours.put(WORK, H, UNTIL)
    seen.append(state(ours))
    theirs.accept(H)
    seen.append(state(ours))
    theirs.finish(H, {"state": "succeeded"})
    seen.append(state(ours))
    ours.forget(H, is_driver_dead=False)

    assert [*seen, state(ours)] == ["absent", "queued", "running", "succeeded", "absent"]


def test_the_driver_reads_what_the_service_submitted(ours: service.SpoolClient, theirs: driver.Spool) -> None:
    ours.put(WORK, H, UNTIL)
    [handle] = theirs.waiting()
    item = theirs.work_item(handle)

    assert item is not None
    assert item.pop("at") > 0
    assert item == {
        "handle": "7-1",
        "job": "probe",
        "parameters": {"rows": 1},
        "table": "db.t",
        "location": "/t",
        "queue": "q",
        "operation": 7,
        "heartbeat_token": "boot:3",
        "time_to_live": 30.0,
    }


def test_the_driver_reads_each_renewal_once(ours: service.SpoolClient, theirs: driver.Spool) -> None:
    ours.renew([H, Handle("8-1")], UNTIL)

    assert theirs.take_renewals() == [{"handles": ["7-1", "8-1"], "heartbeat_token": "boot:3", "time_to_live": 30.0}]
    assert theirs.take_renewals() == []


def test_progress_and_outcome_are_read_as_they_were_written(ours: service.SpoolClient, theirs: driver.Spool) -> None:
    theirs.publish_progress(H, {"progress": {"phase": "one"}})
    assert ours.view([H]).running[H]["progress"] == {"phase": "one"}
    theirs.publish_progress(H, {"progress": {"phase": "two"}})
    assert ours.view([H]).running[H]["progress"] == {"phase": "two"}
    theirs.finish(H, {"state": "failed", "error_class": "x.Y", "message": "m", "seconds": 1.5})

    status = status_of(H, ours.view([H]), is_alive=True, is_silent=False)
    assert (status.state, status.error_class, status.message, status.seconds) == ("failed", "x.Y", "m", 1.5)


APPLICATION = {"application": "app-1", "application_url": "http://127.0.0.1:4040"}


def test_the_application_of_work_is_known_from_its_start_to_its_end(
    ours: service.SpoolClient, theirs: driver.Spool
) -> None:
    theirs.publish_progress(H, APPLICATION)
    running = status_of(H, ours.view([H]), is_alive=True, is_silent=False)
    dead = status_of(H, ours.view([H]), is_alive=False, is_silent=False)
    theirs.clear()  # by the next driver
    lost = status_of(H, ours.view([H]), is_alive=True, is_silent=False)
    theirs.finish(H, {"state": "succeeded", **APPLICATION})
    done = status_of(H, ours.view([H]), is_alive=True, is_silent=False)

    assert [one.state for one in (running, dead, lost, done)] == ["running", "lost", "lost", "succeeded"]
    assert {(one.external_id, one.external_url) for one in (running, dead, lost, done)} == {
        ("app-1", "http://127.0.0.1:4040")
    }


def test_work_of_a_driver_of_an_earlier_version_has_no_application(
    ours: service.SpoolClient, theirs: driver.Spool
) -> None:
    theirs.publish_progress(H, {"progress": {"phase": "one"}})
    assert status_of(H, ours.view([H]), is_alive=True, is_silent=False).external_id == ""


def test_the_page_of_the_history_server_takes_the_place_of_the_drivers_own() -> None:
    running = EngineStatus(state=EngineState.RUNNING, external_id="app 1", external_url="http://127.0.0.1:4040")
    url = "https://history/history/{application}/1"

    assert with_history(running, url).external_url == "https://history/history/app%201/1"
    assert with_history(running, "") == running
    assert with_history(EngineStatus(state=EngineState.QUEUED), url).external_url == ""


def test_started_work_is_lost_when_its_driver_is_dead_and_waiting_work_is_not(
    ours: service.SpoolClient, theirs: driver.Spool
) -> None:
    ours.put(WORK, H, UNTIL)
    assert state(ours, is_alive=False) is EngineState.QUEUED
    theirs.accept(H)
    assert state(ours, is_alive=False) is EngineState.LOST


def test_a_silent_driver_makes_running_work_unknown(ours: service.SpoolClient, theirs: driver.Spool) -> None:
    theirs.publish_progress(H, {})
    assert status_of(H, ours.view([H]), is_alive=True, is_silent=True).state is EngineState.UNKNOWN


def test_a_torn_result_is_lost_not_failed(ours: service.SpoolClient) -> None:
    (ours.done / "7-1.json").write_text('{"state": "succ')
    assert state(ours) is EngineState.LOST


def test_waiting_work_is_taken_back_without_the_driver(ours: service.SpoolClient, theirs: driver.Spool) -> None:
    ours.put(WORK, H, UNTIL)
    ours.cancel_work(H)

    assert state(ours) is EngineState.CANCELED
    assert not theirs.accept(H)
    assert theirs.waiting() == []


def test_the_driver_is_asked_to_cancel_what_it_runs(ours: service.SpoolClient, theirs: driver.Spool) -> None:
    ours.put(WORK, H, UNTIL)
    theirs.accept(H)
    ours.cancel_work(H)

    assert theirs.take_cancels() == [H]
    assert theirs.take_cancels() == []


def test_cancelling_what_is_unknown_or_over_asks_nobody(ours: service.SpoolClient, theirs: driver.Spool) -> None:
    theirs.finish("8-1", {"state": "succeeded"})
    for handle in ("8-1", "9-1"):
        ours.cancel_work(Handle(handle))

    assert theirs.take_cancels() == []


def test_work_that_is_forgotten_as_soon_as_its_outcome_is_there_does_not_run_again(
    ours: service.SpoolClient, theirs: driver.Spool
) -> None:
    ours.put(WORK, H, UNTIL)
    theirs.accept(H)
    running = (ours.running / f"{H}.json").read_bytes()
    theirs.finish(H, {"state": "succeeded"})
    (ours.running / f"{H}.json").write_bytes(running)  # as it is between the two steps of finish

    assert state(ours) is EngineState.SUCCEEDED
    ours.forget(H, is_driver_dead=False)

    assert state(ours) is EngineState.ABSENT


def test_work_that_is_forgotten_while_it_waits_is_never_run(ours: service.SpoolClient, theirs: driver.Spool) -> None:
    ours.put(WORK, H, UNTIL)
    ours.forget(H, is_driver_dead=False)

    assert not theirs.accept(H)


@pytest.mark.parametrize("handle", ["", "../x", ".x", "a/b", "a b", "x" * 121, "a\n"])
def test_a_handle_is_a_plain_word(ours: service.SpoolClient, handle: str) -> None:
    with pytest.raises(Invalid):
        ours.put(WORK, Handle(handle), UNTIL)
    with pytest.raises(Invalid):
        ours.log_tail(Handle(handle), 0, 10)


def test_logs_are_read_in_pieces(ours: service.SpoolClient) -> None:
    (ours.logs / "7-1.log").write_text("0123456789")

    assert ours.log_tail(H, 0, 4) == "0123"
    assert ours.log_tail(H, 4, 100) == "456789"
    assert ours.log_tail(Handle("none"), 0, 4) == ""


def test_old_results_logs_and_drafts_are_cleaned_up_but_never_work(ours: service.SpoolClient) -> None:
    old = time.time() - timedelta(days=40).total_seconds()
    files = [ours.inbox / "a.json", ours.inbox / ".a.taken", ours.done / "b.json", ours.logs / "c.log"]
    for file in files:
        file.touch()
        os.utime(file, (old, old))
    fresh = ours.done / "d.json"
    fresh.write_text(json.dumps({"state": "succeeded"}))
    ours.clean_up({ours.done: timedelta(days=30), ours.logs: timedelta(days=14)}, time.time())

    assert [file.exists() for file in [*files, fresh]] == [True, False, False, False, True]


def test_the_locks_of_running_jobs_outlive_what_the_service_forgets(
    ours: service.SpoolClient, theirs: driver.Spool
) -> None:
    ours.put(WORK, H, UNTIL)
    theirs.accept(H)
    assert not ours.has_locks()
    theirs.use_lock(H, "/locks/trips/lock")

    ours.forget(H, is_driver_dead=True)
    assert ours.has_locks(), "the next driver must look at it"
    release_left(theirs.locks)
    assert not ours.has_locks()
