# SPDX-License-Identifier: Apache-2.0
"""Installs the stopping plugin for the services that a test starts."""

import os
import shutil
from pathlib import Path

import pytest

PLUGINS = '{"process-factories": {"stopping": {"priority": 10}}}'


def install_stops(folder: Path, environment: pytest.MonkeyPatch) -> Path:
    """As an installed distribution. Returns the folder in which each table whose job has stopped leaves a file."""
    site, marks = folder / "site", folder / "marks"
    marks.mkdir()
    shutil.copytree(Path(__file__).parent / "stops", site)
    info = site / "lakehand_stops-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lakehand-stops\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[lakehand.process_factories]\nstopping = lakehand_stops:StoppingFactory\n")
    environment.setenv("PYTHONPATH", f"{site}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    environment.setenv("STOPS", str(marks))
    return marks
