# SPDX-License-Identifier: Apache-2.0
"""A clustering plan that a writer has made stale is never run: it would replace newer rows."""

from pathlib import Path

import pytest

from lakehand.formats.hudi import HudiProcessFactory
from lakehand.formats.hudi.snapshot import CLUSTERING
from lakehand.spi import Failure, Instant, TableProcess
from tests.formats.hudi.runtime import EVENTS_V6, EVENTS_V9, FILE_LOCK, MemoryRuntime, asked_for, commit, copied

GROUP_V9 = "b95350d6-bb32-4de6-a508-a9b16671096f-0"
GROUP_V6 = "35758d04-5413-485d-98a6-8b39fd7c0bf2-0"
LATER = "20261115230000000"


def admitted(table: Path, plan: Instant, properties: dict[str, str] | None = None) -> object:
    factory = HudiProcessFactory()
    factory.open({})
    return factory.admit(MemoryRuntime(table, properties=properties), asked_for(CLUSTERING, plan))


def write(table: Path, name: str) -> None:
    (table / "p0").mkdir(exist_ok=True)
    (table / "p0" / name).write_bytes(b"rows")


@pytest.mark.parametrize(
    ("name", "plan", "newer"),
    [
        ("events_v9", EVENTS_V9, f"{GROUP_V9}_0-1-1_{LATER}.parquet"),
        ("events_v9", EVENTS_V9, f".{GROUP_V9}_{LATER}.log.1_0-1-1"),
        ("events_v6", EVENTS_V6, f"{GROUP_V6}_0-1-1_{LATER}.parquet"),
        ("events_v6", EVENTS_V6, f".{GROUP_V6}_20261115214511092.log.1_0-1-1"),
    ],
)
def test_a_plan_whose_file_group_has_newer_files_fails_with_that_reason(
    tmp_path: Path, name: str, plan: Instant, newer: str
) -> None:
    table = copied(name, tmp_path)
    commit(table, LATER, "commit")
    write(table, newer)
    answer = admitted(table, plan)
    assert isinstance(answer, Failure)
    assert newer in answer.message
    assert answer.remedy == "fatal"


def test_under_a_shared_lock_the_stale_plan_is_given_to_the_job_to_roll_back(tmp_path: Path) -> None:
    table = copied("events_v9", tmp_path)
    commit(table, LATER, "commit")
    write(table, f"{GROUP_V9}_0-1-1_{LATER}.parquet")

    answer = admitted(table, EVENTS_V9, FILE_LOCK)

    assert isinstance(answer, TableProcess)
    stale = answer.parameters["stale"]
    assert isinstance(stale, dict)
    assert LATER in stale[EVENTS_V9]
    assert answer.parameters["may_roll_back"] is True


def test_a_write_that_began_before_the_plan_and_ended_after_it_makes_the_plan_stale(tmp_path: Path) -> None:
    table = copied("events_v9", tmp_path)
    before = "20261115214138000"
    commit(table, before, "commit")
    write(table, f"{GROUP_V9}_0-1-1_{before}.parquet")

    assert isinstance(admitted(table, EVENTS_V9), Failure)


@pytest.mark.parametrize(
    "other",
    [
        f"{GROUP_V9}_0-139-272_20261115214132814.parquet",  # the slice that the plan reads
        f"{GROUP_V9}_0-1-1_20261115214059849.parquet",  # an older slice
        f"{GROUP_V9}_0-1-1_20261115230000001.parquet",  # left by a write that never completed
        f"another-group-0_0-1-1_{LATER}.parquet",
        ".hoodie_partition_metadata",
    ],
)
def test_other_files_do_not_hinder_the_plan(tmp_path: Path, other: str) -> None:
    table = copied("events_v9", tmp_path)
    commit(table, LATER, "commit")
    write(table, other)
    assert isinstance(admitted(table, EVENTS_V9), TableProcess)
