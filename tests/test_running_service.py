# SPDX-License-Identifier: Apache-2.0
"""What the tests' own service does to other people's processes: nothing."""

import json
import subprocess
from pathlib import Path

from tests.kit.service import RunningService


def test_a_number_of_a_dead_driver_that_is_another_processes_now_is_left_alone(tmp_path: Path) -> None:
    service = RunningService(tmp_path / "home", tmp_path / "lake")
    service.spool.mkdir(parents=True)
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as stranger:
        (service.spool / "driver.json").write_text(json.dumps({"pid": stranger.pid}))
        service.kill_driver()

        assert stranger.poll() is None
        stranger.kill()
