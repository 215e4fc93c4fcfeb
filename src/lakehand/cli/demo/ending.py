# SPDX-License-Identifier: Apache-2.0
"""How the demo ends: what was promised and what is, what to try next, and nothing left behind."""

import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from lakehand.cli.demo.result import Promise
from lakehand.cli.demo.stage import Stage
from lakehand.cli.screen import data, joined


def judge(stage: Stage, made: Sequence[Promise]) -> int:
    """0 when every promise is kept, and 1 otherwise."""
    for promise in made:
        word = data("kept  ", "green") if promise.is_kept else data("BROKEN", "red")
        stage.show(joined(word, f" {promise.text}"))
    kept = all(promise.is_kept for promise in made)
    stage.line("demo", "everything is as promised" if kept else "something is not as promised")
    return 0 if kept else 1


def suggest(stage: Stage) -> None:
    stage.show(
        "\nNext, with tables of your own:\n"
        "  lakehand check /data                    how they fare and what Lakehand would do; reads only, in a second\n"
        "  lakehand maintain /data/trips --dry-run what it would do to one; without --dry-run it does it, once\n"
        "  lakehand serve --warehouse /data        looks after them from now on\n"
        "  lakehand demo --keep                    this demo once more, and it stays up to be played with"
    )


def stay(stage: Stage, url: str, lake: Path, name: str) -> None:
    stage.show(
        f"\nStill up, until Ctrl-C. Try in another terminal:\n"
        f"  export LAKEHAND_URL={url}\n"
        f"  lakehand check {lake}\n"
        "  lakehand tables list\n"
        f"  lakehand explain {name}\n"
        "  lakehand operations list\n"
        "  lakehand operations show 1\n"
        "  lakehand operations logs 1\n"
        f"  curl -s {url}/metrics | grep lakehand\n"
        f"  curl -s {url}/api/v1/openapi.json"
    )
    try:
        signal.pause()
    except KeyboardInterrupt:
        stage.line("demo", "ending")


def leave(stage: Stage, home: Path, code: int) -> None:
    """Nothing stays after a good end; after a bad one the logs do."""
    logs = sorted(path for path in home.rglob("*.log") if path.is_file())
    if code == 0 or not logs:
        shutil.rmtree(home, ignore_errors=True)
        return
    for part in home.iterdir():
        if part.is_dir() and not any(log.is_relative_to(part) for log in logs):
            shutil.rmtree(part, ignore_errors=True)
    stage.line("demo", f"the logs are kept in {home}: " + ", ".join(str(log.relative_to(home)) for log in logs))
    sys.stdout.flush()
