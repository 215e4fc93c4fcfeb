# SPDX-License-Identifier: Apache-2.0
"""Applications in YARN's cluster mode; a shell plays spark-submit, and a class plays YARN: what counts as alive."""

import shutil
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path

import pytest

from lakehand.domain.errors import Unavailable
from lakehand.domain.operations import Handle
from lakehand.engines.spark_submit import yarn as yarn_module
from lakehand.engines.spark_submit.yarn import Yarn, YarnWatch
from lakehand.spi import EngineContext, EngineState, LeaseGrant
from lakehand.testing import eventually
from tests.engines.test_applications import LONG, PlayedEngine

NOW = timedelta()


class PlayedYarn(Yarn):
    """Runs whatever it was told to."""

    def __init__(self) -> None:
        self.applications: dict[str, str] = {}
        self.killed: list[str] = []
        self.questions = 0
        self.is_away = False

    def running(self) -> Mapping[str, str]:
        self.questions += 1
        if self.is_away:
            raise Unavailable("no ResourceManager answers")
        return dict(self.applications)

    def kill(self, handle: str) -> None:
        self.killed.append(handle)
        self.applications.pop(handle, None)


class ClusterEngine(PlayedEngine):
    script = "true"  # spark-submit returns as soon as YARN has the application

    def __init__(self, yarn: PlayedYarn) -> None:
        self.yarn = yarn

    def _make_yarn(self) -> Yarn:
        return self.yarn

    def opened(self, home: Path) -> "ClusterEngine":
        (home / "shared").mkdir(mode=0o700, exist_ok=True)
        mode = {"master": "yarn", "deploy-mode": "cluster", "shared-folder": str(home / "shared"), "lease-grace": "0"}
        self.open(mode, EngineContext(home=home))
        self._yarn_watch = YarnWatch(self.yarn, self.settings.spark, pause=0)
        return self

    def submitted(self, name: str = "a") -> Handle:
        """Its spark-submit is over, and YARN has it."""
        self.yarn.applications[name] = "application_1_0001"
        handle = self.give(name)
        process = self._find(handle).process
        assert isinstance(process, yarn_module.YarnProcess)
        eventually(lambda: not self._find(handle).is_starting and not process.is_submitting())
        return handle

    def publish(self, handle: Handle, beat: int, state: str = "up") -> None:
        self.spool_of(handle).publish_state({"boot": "boot", "beat": beat, "state": state})

    def grant(self, time_to_live: timedelta = LONG) -> LeaseGrant:
        return LeaseGrant(heartbeat_token=self.heartbeat_token(), time_to_live=time_to_live)

    def started(self, time_to_live: timedelta = LONG) -> Handle:
        """It runs its work, under a lease."""
        handle = self.submitted()
        self.publish(handle, 1)
        self.renew([handle], self.grant(time_to_live))
        self.spool_of(handle).accept(handle)
        return handle

    def is_idle(self) -> bool:
        self.tend()
        return self.busy() == set()

    def ask_yarn(self) -> None:
        """One question, and its answer."""
        before = self.yarn.questions

        def has_asked() -> bool:
            self.tend()
            return self.yarn.questions > before

        eventually(has_asked)
        eventually(lambda: not self._yarn_watch.is_asking)


@pytest.fixture
def yarn(monkeypatch: pytest.MonkeyPatch) -> PlayedYarn:
    monkeypatch.setattr(yarn_module, "IN_DOUBT", -1.0)
    return PlayedYarn()


@pytest.fixture
def engine(tmp_path: Path, yarn: PlayedYarn) -> Iterator[ClusterEngine]:
    engine = ClusterEngine(yarn).opened(tmp_path)
    yield engine
    for application in engine._active():
        application.spool.exit_reason.touch()


def test_a_renewal_names_the_heartbeat_that_was_there_when_its_token_was_read(engine: ClusterEngine) -> None:
    handle = engine.submitted()
    engine.publish(handle, 1)
    grant = engine.grant()
    engine.publish(handle, 2)
    engine.renew([handle], grant)

    assert [one["heartbeat_token"] for one in engine.spool_of(handle).take_renewals()] == ["boot:1"]


def test_a_token_that_is_older_than_the_first_heartbeat_renews_nothing(engine: ClusterEngine) -> None:
    handle = engine.submitted()
    early = engine.grant()
    engine.publish(handle, 1)
    engine.renew([handle], early)

    assert engine.spool_of(handle).take_renewals() == []


def test_a_token_of_an_earlier_service_renews_nothing(engine: ClusterEngine, tmp_path: Path) -> None:
    handle = engine.submitted()
    engine.publish(handle, 1)
    early = engine.grant()
    again = ClusterEngine(engine.yarn).opened(tmp_path)
    again.renew([handle], early)
    assert again.spool_of(handle).take_renewals() == []

    again.renew([handle], again.grant())
    assert len(again.spool_of(handle).take_renewals()) == 1


def test_it_lives_on_after_its_submission_and_another_service_finds_it(engine: ClusterEngine, tmp_path: Path) -> None:
    handle = engine.submitted()
    assert engine.state(handle) is EngineState.QUEUED
    engine.publish(handle, 1)
    engine.spool_of(handle).accept(handle)

    again = ClusterEngine(engine.yarn).opened(tmp_path)
    again.tend()
    assert again.busy() == {"a"}
    assert again.state(handle) is EngineState.RUNNING


def test_it_is_lost_as_soon_as_it_says_why_it_ends(engine: ClusterEngine) -> None:
    handle = engine.started()
    engine.spool_of(handle).exit_reason.write_text("the cluster told it to end\n")

    status = engine.status([handle])[handle]
    assert (status.state, "told it to end" in status.message) == (EngineState.LOST, True)


def test_one_that_left_in_good_order_lives_no_more(engine: ClusterEngine) -> None:
    handle = engine.started()
    engine.spool_of(handle).finish(handle, {"state": "succeeded", "result": {"rows": 7}})
    engine.publish(handle, 2, "stopped")
    engine.tend()

    assert engine.busy() == set()
    assert engine.status([handle])[handle].result == {"rows": 7}


def test_it_is_lost_when_yarn_does_not_know_it_and_its_lease_is_over(engine: ClusterEngine) -> None:
    handle = engine.started(NOW)
    engine.yarn.applications.clear()
    engine.ask_yarn()

    eventually(lambda: engine.state(handle) is EngineState.LOST)
    assert "YARN does not run it" in engine.status([handle])[handle].message


def test_it_may_still_run_while_its_lease_lasts_whatever_yarn_says(engine: ClusterEngine) -> None:
    handle = engine.started(LONG)
    engine.yarn.applications.clear()
    engine.ask_yarn()

    assert engine.state(handle) is EngineState.RUNNING


def test_renewals_do_not_prolong_the_lease_of_one_that_sends_no_new_heartbeats(engine: ClusterEngine) -> None:
    short = timedelta(seconds=0.5)
    handle = engine.started(short)
    engine.yarn.applications.clear()

    def is_lost() -> bool:
        engine.renew([handle], engine.grant(short))
        engine.tend()
        return engine.state(handle) is EngineState.LOST

    eventually(is_lost)


def test_the_lease_of_an_earlier_service_counts_too(engine: ClusterEngine, tmp_path: Path) -> None:
    handle = engine.started(LONG)
    engine.yarn.applications.clear()
    again = ClusterEngine(engine.yarn).opened(tmp_path)
    again.ask_yarn()

    assert again.state(handle) is EngineState.RUNNING


@pytest.mark.parametrize("is_away", [True, False])
def test_it_lives_while_yarn_knows_it_or_does_not_answer(engine: ClusterEngine, is_away: bool) -> None:
    handle = engine.started(NOW)
    engine.yarn.is_away = is_away
    engine.ask_yarn()

    assert engine.state(handle) is EngineState.RUNNING


def test_yarn_is_not_asked_about_one_that_sends_heartbeats(
    engine: ClusterEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(yarn_module, "IN_DOUBT", 60.0)
    engine.started()
    engine.tend()

    assert engine.yarn.questions == 0


def test_a_submission_that_fails_is_a_failed_attempt_with_its_reason(engine: ClusterEngine) -> None:
    engine.script = "echo unknown queue; exit 1"
    handle = engine.submitted()
    engine.yarn.applications.clear()
    engine.ask_yarn()

    eventually(lambda: engine.state(handle) is EngineState.FAILED)
    assert "unknown queue" in engine.status([handle])[handle].message


def test_a_canceled_one_that_waits_in_a_queue_of_yarn_is_killed_there(engine: ClusterEngine) -> None:
    handle = engine.submitted()
    engine.cancel(handle)
    assert engine.state(handle) is EngineState.CANCELED
    engine.tend()

    eventually(lambda: "a" in engine.yarn.killed)
    eventually(engine.is_idle)


def test_its_settings_leave_the_shared_folder_as_soon_as_yarn_has_them(engine: ClusterEngine) -> None:
    folder = engine._find(engine.submitted()).folder
    assert (folder / "spark.properties").stat().st_mode & 0o077 == 0
    engine.tend()

    assert not (folder / "spark.properties").exists()
    assert engine.busy() == {"a"}


def test_one_that_hangs_is_killed_through_yarn(engine: ClusterEngine) -> None:
    handle = engine.started()
    engine._find(handle).watch(engine.settings.spark)
    hasty = type(engine.settings.spark)(hang_timeout=timedelta(seconds=-1))
    engine._find(handle).watch(hasty)

    eventually(lambda: engine.yarn.killed == ["a"])


def test_folders_are_in_the_shared_folder_apart_for_each_home(engine: ClusterEngine, tmp_path: Path) -> None:
    engine.submitted()
    other = tmp_path / "other"
    other.mkdir()
    shared = {"master": "yarn", "deploy-mode": "cluster", "shared-folder": str(tmp_path / "shared")}
    elsewhere = ClusterEngine(engine.yarn)
    elsewhere.open(shared, EngineContext(home=other))

    assert engine.applications.is_relative_to(tmp_path / "shared")
    assert elsewhere.applications.is_relative_to(tmp_path / "shared")
    assert list(elsewhere.applications.iterdir()) == []


ANOTHER = "is not the folder that the service was started with"


def put_a_copy_in_its_place(engine: ClusterEngine, folder: Path) -> Path:
    """Of what waits there; returns where the real one is now."""
    aside = folder.with_name("aside")
    folder.rename(aside)
    shutil.copytree(aside, folder)
    return aside


@pytest.mark.parametrize("replaced", ["shared", "of this home"])
def test_another_folder_in_its_place_gets_no_work_and_no_settings(
    engine: ClusterEngine, tmp_path: Path, replaced: str
) -> None:
    engine.give("a", has_lease=False)
    folder = tmp_path / "shared" if replaced == "shared" else engine.applications.parent
    aside = put_a_copy_in_its_place(engine, folder)
    before = sorted(folder.rglob("*"))

    with pytest.raises(Unavailable, match=ANOTHER):
        engine.give("b")
    engine.renew([Handle("a")], engine.grant())
    engine.tend()
    eventually(lambda: not engine._find(Handle("a")).is_starting)

    assert sorted(folder.rglob("*")) == before
    assert not list(tmp_path.rglob("spark.properties"))
    shutil.rmtree(folder)
    aside.rename(folder)
    engine.renew([Handle("a")], engine.grant())
    eventually(lambda: list(folder.rglob("spark.properties")))


def test_settings_are_compared_with_their_folder_right_before_they_are_written(
    engine: ClusterEngine, tmp_path: Path
) -> None:
    """A start takes time: Java and jars are looked for between the first check and the write."""
    engine.give("a", has_lease=False)
    application = engine._find(Handle("a"))
    put_a_copy_in_its_place(engine, tmp_path / "shared")

    with pytest.raises(Unavailable, match=ANOTHER):
        application.process.start(engine._command(application, {}))
    assert not list(tmp_path.rglob("spark.properties"))


def test_what_runs_is_unknown_while_its_folder_is_not_mounted(engine: ClusterEngine, tmp_path: Path) -> None:
    """Not absent: whatever is absent is submitted again, and would run twice."""
    handle = engine.started()
    aside = put_a_copy_in_its_place(engine, tmp_path / "shared")
    shutil.rmtree(tmp_path / "shared")
    (tmp_path / "shared").mkdir(mode=0o700)

    assert (engine.state(handle), engine.health().is_up) == (EngineState.UNKNOWN, False)
    (tmp_path / "shared").rmdir()
    assert engine.state(handle) is EngineState.UNKNOWN
    aside.rename(tmp_path / "shared")
    assert (engine.state(handle), engine.health().is_up) == (EngineState.RUNNING, True)
