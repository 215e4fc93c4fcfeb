# SPDX-License-Identifier: Apache-2.0
"""The real Hudi 1.2.1 client for our tests: a small Java writer, how to run it, and its requests on record."""

import os
from pathlib import Path

import pytest

from tests.hudi_client.project import available, build, missing_programs
from tests.hudi_client.recorded import RecordedRequest, Recording, recordings
from tests.hudi_client.recorder import Recorder, recording
from tests.hudi_client.writer import Commit, WriterRun, expected_sum, run

__all__ = [
    "Commit",
    "RecordedRequest",
    "Recorder",
    "Recording",
    "WriterRun",
    "available",
    "build",
    "expected_sum",
    "recording",
    "recordings",
    "require",
    "run",
]


def require(config: pytest.Config) -> Path:
    """The built writer; without Maven and a JDK the test is skipped, or fails where everything must run (CI=true)."""
    if not available():
        reason = f"the real Hudi client needs {', '.join(missing_programs())}"
        pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)
    capture = config.pluginmanager.getplugin("capturemanager")
    if capture is None:
        return build()
    with capture.global_and_fixture_disabled():
        return build()
