# SPDX-License-Identifier: Apache-2.0
"""One real job of each format, attacked: whatever leads out of its table stops it, is named, and nothing has changed.

That every other job stops in the same way is shown without Spark, in ``test_every_job.py``.
"""

from collections.abc import Callable

import pytest

from tests.attacks.attacks import ATTACKS, LISTING, format_of, nest
from tests.attacks.every_job import JOBS
from tests.attacks.real_tables import RealTable
from tests.attacks.scene import FORMATS, fingerprint

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")]
# All of them list folders, so that they must stop at every attack.
TRIED = {
    "hudi": "compaction",
    "iceberg": "remove-orphans",
    "delta": "vacuum",
    "paimon": "remove-orphans",
    "lance": "clean-versions",
}
REAL = [name for name, attack in ATTACKS.items() if attack.is_real]
Tables = Callable[[str], RealTable]


@pytest.mark.parametrize("attack", REAL)
@pytest.mark.parametrize("format", FORMATS)
def test_a_real_job_stops_and_nothing_has_changed(real_table: Tables, format: str, attack: str) -> None:
    table, tried = real_table(format), ATTACKS[attack]
    place = table.put_back(tried.on[0])
    operation = table.admitted(TRIED[format], confirm=True)
    tried.act(place)
    assert tried.said.format(**vars(place)) in table.stopped(operation)


@pytest.mark.long
@pytest.mark.parametrize("format", FORMATS)
def test_without_an_attack_the_same_job_changes_the_same_table(real_table: Tables, format: str) -> None:
    table = real_table(format)
    place = table.put_back()
    before = {path.name for path in place.table.rglob("*")}
    table.run(table.admitted(TRIED[format], confirm=True))
    assert {path.name for path in place.table.rglob("*")} != before


# Not needed by these tables. (Those of Paimon have tables of their own: test_paimon_expiry_paths.py.)
ELSEWHERE = frozenset(
    {"delta-purge", "delta-clean-log", "delta-expire-data", "iceberg-expire-data", "paimon-expire-tags"}
    | {"paimon-expire-partitions"}
)
# Actions that follow the table's own metadata.
FOLLOWING = sorted(pair for pair in JOBS if pair not in LISTING | ELSEWHERE)


@pytest.mark.long
@pytest.mark.parametrize("pair", FOLLOWING)
def test_an_action_that_lists_no_folder_is_done_and_a_table_below_is_left_alone(real_table: Tables, pair: str) -> None:
    table = real_table(format_of(pair))
    place = table.put_back()
    nest("lance" if table.format == "delta" else "delta", place)
    below, outside = fingerprint(place.table / "inner"), fingerprint(place.outside)
    table.run(table.admitted(pair.partition("-")[2]))
    assert (fingerprint(place.table / "inner"), fingerprint(place.outside)) == (below, outside)
