# SPDX-License-Identifier: Apache-2.0
"""Three instances on one PostgreSQL are replaced one by one under load; the plans and their effects are a stand-in's.

The engine is the example that runs each job as a process, with a plugin whose effect is a file: see ``plan_folders``.
"""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.kit.polling import wait_for
from tests.kit.service import RunningService
from tests.rolling.commands import drain
from tests.rolling.conftest import NEW, Fleet
from tests.rolling.load import Writers, live_files
from tests.rolling.plan_folders import effects
from tests.rolling.previous_version import unpack_previous

pytestmark = pytest.mark.long
UNFINISHED = "pending,submitted,running,canceling,unknown"


@pytest.fixture(scope="module")
def old_source(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(unpack_previous(tmp_path_factory.mktemp("previous")))


def tables(fleet: Fleet, kind: str, number: int) -> list[Path]:
    return [fleet.folder / "lake" / f"{kind}{n}" for n in range(number)]


def progress(writers: Writers, more: int) -> None:
    """Wait until so many more plans are done."""
    target = effect_count(writers) + more
    wait_for(lambda: effect_count(writers) >= target, f"{target} effects")


def effect_count(writers: Writers) -> int:
    return sum(len(effects(path)) for path in writers.hudi)


def unfinished(service: RunningService) -> list[dict[str, Any]]:
    return [one for status in UNFINISHED.split(",") for one in service.operations(status=status)]


def has_effects(table: Path, planned: Sequence[str]) -> bool:
    return set(effects(table)) >= set(planned)


def has_manifest(table: Path) -> bool:
    return manifest_of(table) == live_files(table)


def manifest_of(table: Path) -> set[str]:
    file = table / "_symlink_format_manifest" / "manifest"
    return {Path(line).name for line in file.read_text().split()} if file.exists() else set()


def test_three_instances_are_replaced_one_by_one_and_nothing_is_lost_or_done_twice(
    fleet: Fleet, old_source: str
) -> None:
    for name in ("one", "two", "three"):
        fleet.add(name, old_source, lease="30s", lease_margin="5s")
    for table in tables(fleet, "orders", 2):
        table.mkdir()
    with Writers(fleet.addresses, tables(fleet, "trips", 6), tables(fleet, "orders", 2)) as writers:
        for table in writers.delta:
            fleet.instances[0].add_table(table, "generate-manifest")
        progress(writers, 5)
        for instance in fleet.instances:
            instance.stop()
            fleet.start(instance, NEW)
            progress(writers, 5)
        replaced = fleet.instances[0]
        assert drain(replaced, "--wait", "--timeout", "60")["state"] == "drained"
        replaced.stop()
        progress(writers, 5)
        fleet.start(replaced, NEW)
        progress(writers, 5)

    assert writers.failures == []
    for path, planned in writers.planned.items():
        wait_for(partial(has_effects, path, planned), f"all plans of {path.name}")
    for table in writers.delta:
        wait_for(partial(has_manifest, table), f"the manifest of {table.name}")
    wait_for(lambda: not unfinished(replaced), "the end of all operations")
    for path, planned in writers.planned.items():
        assert Counter(effects(path)) == Counter(planned)
    assert not replaced.operations(status="failed")
    assert_each_version_was_folded_once(replaced)


def assert_each_version_was_folded_once(service: RunningService) -> None:
    done = service.operations(status="succeeded", action="generate-manifest")
    details = [service.get(f"/api/v1/operations/{one['id']}") for one in done]
    versions = Counter((one["table"]["id"], one["parameters"]["version"]) for one in details)
    assert versions
    assert set(versions.values()) == {1}


def test_the_previous_version_runs_on_and_does_not_start_again_after_the_upgrade(fleet: Fleet, old_source: str) -> None:
    fleet.add("old", old_source)
    fleet.add("new", NEW)
    [old, _] = fleet.instances

    assert old.get("/health/ready")["status"] == "ready"
    old.stop()
    with pytest.raises(AssertionError, match="this version of Lakehand knows up to"):
        fleet.start(old, old_source)
