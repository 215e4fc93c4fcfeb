# SPDX-License-Identifier: Apache-2.0
"""The command as an operator or a preStop hook calls it."""

import json
import subprocess
import sys
from typing import Any

from tests.kit.service import RunningService


def drain(instance: RunningService, *words: str) -> dict[str, Any]:
    """lakehand drain of the instance with this home; the last line that it prints."""
    command = [sys.executable, "-m", "lakehand.cli", "drain", "--home", str(instance.home), "--json", *words]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    text = ran.stdout.splitlines()[-1] if "--wait" in words else ran.stdout
    last: dict[str, Any] = json.loads(text)
    return last
