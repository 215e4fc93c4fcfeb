# SPDX-License-Identifier: Apache-2.0
"""A writer and our rewrites race for the commits of tables on a slow S3 server (moto behind a proxy): nothing is lost
where the rule allows the rewrites, and something is where it does not and they are forced.

Both applications are started once for all tables. More commits, and all combinations: ``python -m bench races``.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.contests import slow_store
from tests.e2e.races import Spec, race

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(2400)]
COMMITS, REWRITES = 6, 4
ALLOWED = ["iceberg_jdbc", "lance", "delta_log_store_stand_in", "hudi_storage_lock_stand_in"]
FORCED = ["delta"]
Results = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Results]:
    folder: Path = tmp_path_factory.mktemp("races")
    with slow_store() as store:
        spec = Spec(
            endpoint=store.endpoint, folder=str(folder), commits=COMMITS, rewrites=REWRITES, names=[*ALLOWED, *FORCED]
        )
        yield {one["name"]: one for one in race(spec)}


@pytest.mark.parametrize("name", ALLOWED)
def test_a_writer_and_our_rewrites_in_two_processes_lose_no_commit_where_the_rule_allows_them(
    results: Results, name: str
) -> None:
    found = results[name]
    assert (found["lost_appends"], found["lost_rewrites"], found["doubled"]) == ([], 0, 0), found
    assert found["appends"] >= COMMITS, found
    assert found["rewrites"] >= 3, found


@pytest.mark.parametrize("name", FORCED)
def test_what_the_rule_refuses_loses_a_commit_when_it_is_forced(results: Results, name: str) -> None:
    found = results[name]
    assert found["lost_appends"] or found["lost_rewrites"], found
