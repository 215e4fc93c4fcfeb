# SPDX-License-Identifier: Apache-2.0
"""What a timeline says of its plans, read from the names of its files alone."""

from collections import Counter
from pathlib import Path

from tests import hudi_tables as hudi
from tests.kit.polling import wait_for

# As the timelines of both layouts call a request. A replacecommit of these writers is a clustering.
ACTIONS = {"compaction": "compaction", "clustering": "clustering", "replacecommit": "clustering", "clean": "clean"}


def plans(path: Path) -> dict[str, str]:
    """Instant → action of each plan that was ever requested and not rolled back."""
    return {
        found[1]: ACTIONS[found[3]]
        for found in hudi.instant_files(path)
        if found[4] == "requested" and found[3] in ACTIONS
    }


def done(path: Path) -> Counter[str]:
    """How many plans of each action are completed. Fails if one of them is completed more than once."""
    completed = {instant: hudi.completed(path, instant) for instant in plans(path)}
    twice = {instant: files for instant, files in completed.items() if len(files) > 1}
    assert not twice, f"plans of {path.name} that are completed more than once"
    return Counter(action for instant, action in plans(path).items() if completed[instant])


def wait_each_done_once(path: Path) -> None:
    """Also what a service has just begun."""
    wait_for(
        lambda: not hudi.pending(path) and done(path) == Counter(plans(path).values()),
        f"each plan of {path.name} to be done once",
    )
