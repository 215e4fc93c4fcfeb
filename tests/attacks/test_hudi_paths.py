# SPDX-License-Identifier: Apache-2.0
"""Hudi believes what lies on a table's timeline: real jobs meet plans, markers and properties that lead outside.

What is refused, and however it is spelled, is shown without Spark: ``test_hudi_guards.py``. All jobs begin with the
same check, and all that execute plans check again right before: so one or two of them are tried for each.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from lakehand.jobs.boundary import OutsideTable
from tests import hudi_tables as hudi
from tests.attacks.hudi_plans import HOSTILE, INSTANT, Plan, avro
from tests.attacks.real_tables import RealTable
from tests.attacks.scene import fingerprint

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")]
# One plan of each class that Hudi has for them, and the action that would execute it.
PLANS = {
    "clean, whole path": "clean",
    "clustering": "clustering",
    "compaction": "compaction",
    "log compaction": "log-compaction",
    "indexing, climbing": "indexing",
    "rollback": "compaction",
}


@pytest.fixture
def table(real_table: Callable[[str], RealTable]) -> RealTable:
    table = real_table("hudi")
    table.put_back()
    return table


def plant(table: RealTable, name: str, content: bytes) -> None:
    """A hostile file on the timeline, which comes a moment after the admission."""
    file = table.path / ".hoodie" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)  # Hadoop's, of a file that is replaced here by hand


def plant_plan(table: RealTable, plan: Plan) -> None:
    record = plan.record(table.outside / "victim.parquet")
    plant(table, f"timeline/{plan.name}", avro(table.spark, plan.model, record))


@pytest.mark.parametrize("attack", PLANS)
def test_a_plan_that_names_files_outside_is_not_executed(table: RealTable, attack: str) -> None:
    operation = table.admitted(PLANS[attack])
    plant_plan(table, HOSTILE[attack])
    assert f"for {HOSTILE[attack].name}" in table.stopped(operation)


def test_markers_that_name_files_outside_are_not_rolled_back(table: RealTable) -> None:
    operation = table.admitted("clean")
    plant(table, f".temp/{INSTANT}/MARKERS.type", b"TIMELINE_SERVER_BASED")
    plant(table, f".temp/{INSTANT}/MARKERS3", b"p=0/x.parquet.marker.CREATE\n../../outside/a.parquet.marker.CREATE")
    assert "../../outside/a.parquet" in table.stopped(operation)


PROPERTIES = {
    "hoodie.timeline.path=../../../outside": "hoodie.timeline.path is '../../../outside'",
    "hoodie.table.name=another": "another table is at",
}


@pytest.mark.parametrize("line", PROPERTIES)
def test_properties_that_lead_outside_or_name_another_table_are_not_followed(table: RealTable, line: str) -> None:
    operation = table.admitted("clean")
    key = line.partition("=")[0]
    lines = (table.path / ".hoodie" / "hoodie.properties").read_text().splitlines()
    kept = [one for one in lines if not one.startswith((f"{key}=", "hoodie.table.checksum="))]
    plant(table, "hoodie.properties", "\n".join([*kept, line, ""]).encode())
    assert PROPERTIES[line] in table.stopped(operation)


@pytest.mark.parametrize("action", ["compaction", "clean"])
def test_a_plan_that_comes_in_the_middle_is_seen_before_anything_is_executed(table: RealTable, action: str) -> None:
    """After the first check, before the job makes a plan of its own, which stays: a plan alone changes no data."""
    operation, plan = table.admitted(action), HOSTILE["clean, whole path"]
    before = data_files(table.top), completed(table.path)
    with pytest.raises(OutsideTable, match=f"for {plan.name}"):
        table.run(operation, "planning", lambda: plant_plan(table, plan))
    assert (data_files(table.top), completed(table.path)) == before


def completed(table: Path) -> list[str]:
    return [found[0] for found in hudi.instant_files(table) if not found[4]]


def data_files(top: Path) -> dict[str, str]:
    return {name: content for name, content in fingerprint(top).items() if "/.hoodie/" not in name}
