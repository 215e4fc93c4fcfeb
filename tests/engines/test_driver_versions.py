# SPDX-License-Identifier: Apache-2.0
"""A driver that another version has started, played by a shell: it ends its work and leaves."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakehand.engines.spark import SparkEngine
from lakehand.engines.spark.command import Command, job_code
from lakehand.spi import EngineContext
from lakehand.testing import eventually

# Publishes its state, and ends when it is asked to, as drivers do.
PLAYED = """printf '%s' "$2" > $1/draft; mv $1/draft $1/driver.json; while [ ! -e $1/stop ]; do sleep 0.02; done"""


class PlayedEngine(SparkEngine):
    code = ""

    def _command(self) -> Command:
        state = {"state": "up", "boot": "b", "beat": 1, **({"code": self.code} if self.code else {})}
        return Command(
            arguments=["/bin/sh", "-c", PLAYED, "driver", str(self.spool.root), json.dumps(state)],
            environment={"PATH": "/usr/bin:/bin"},
            properties={},
            properties_file=self.home / "spark.properties",
        )

    def start(self, code: str) -> None:
        self.code = code
        self.warm()
        eventually(self.spool.driver_state)


def opened(home: Path) -> PlayedEngine:
    engine = PlayedEngine()
    engine.open({}, EngineContext(home=home))
    return engine


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[PlayedEngine]:
    engine = opened(tmp_path)
    yield engine
    engine.stop()


@pytest.mark.parametrize("code", ["", "of another version"])
def test_a_driver_with_other_jobs_is_asked_to_leave_before_it_gets_new_work(
    engine: PlayedEngine, tmp_path: Path, code: str
) -> None:
    engine.start(code)
    again = opened(tmp_path)

    assert again.spool.stop.exists()
    eventually(lambda: not again.process.is_alive())


def test_one_that_was_still_starting_is_asked_to_leave_as_soon_as_it_says_what_it_has(engine: PlayedEngine) -> None:
    engine.start("of another version")
    engine.tend()

    eventually(lambda: not engine.process.is_alive())


def test_a_driver_with_our_jobs_stays(engine: PlayedEngine, tmp_path: Path) -> None:
    engine.start(job_code())
    again = opened(tmp_path)
    again.tend()

    assert not again.spool.stop.exists()
    assert again.process.is_alive()


def test_the_checksum_changes_with_the_jobs_and_with_nothing_else(tmp_path: Path) -> None:
    first, same, other = (tmp_path / name for name in ("first", "same", "other"))
    for folder, text in ((first, "a = 1"), (same, "a = 1"), (other, "a = 2")):
        (folder / "delta").mkdir(parents=True)
        (folder / "delta" / "job.py").write_text(text)

    assert job_code(first) == job_code(same) != job_code(other)
