# SPDX-License-Identifier: Apache-2.0
"""What the tests' own service does to processes: it ends its driver, and leaves those of others alone."""

import json
import signal
import subprocess
import sys
from pathlib import Path

from lakehand.engines.spark.spool import SpoolClient
from tests.kit.service import RunningService


def test_a_number_of_a_dead_driver_that_is_another_processes_now_is_left_alone(tmp_path: Path) -> None:
    service = RunningService(tmp_path / "home", tmp_path / "lake")
    service.spool.mkdir(parents=True)
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as stranger:
        (service.spool / "driver.json").write_text(json.dumps({"pid": stranger.pid}))
        service.kill_driver()

        assert stranger.poll() is None
        stranger.kill()


def test_a_driver_that_has_only_begun_to_start_is_ended_with_its_service(tmp_path: Path) -> None:
    service = RunningService(tmp_path / "home", tmp_path / "lake")
    service.spool.mkdir(parents=True)
    command = [sys.executable, "-c", "import time; time.sleep(600)", str(service.spool)]
    with subprocess.Popen(command, start_new_session=True) as driver:
        try:
            lock = SpoolClient(service.spool).lock
            lock.write_text(str(driver.pid))
            service.end()

            assert driver.wait(30) == -signal.SIGKILL
        finally:
            driver.kill()
