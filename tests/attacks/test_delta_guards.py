# SPDX-License-Identifier: Apache-2.0
"""What Delta jobs look for in a log, and around the files that a vacuum would delete; no Spark.

Real jobs meet these guards in ``test_delta_paths.py``, where Spark filters the log by the same patterns.
"""

import re
from pathlib import Path
from typing import Any

import pytest

from lakehand.jobs.boundary import OutsideTable
from lakehand.jobs.delta import tables, vacuum
from lakehand.jobs.job import Job
from lakehand.testing.harness import boundary_parameter
from tests.attacks.attacks import MARKERS
from tests.attacks.every_job import session_that_fails_when_used
from tests.attacks.scene import FORMATS

NAME = "0" * tables.NAME_LENGTH  # a deletion vector's, as the log has it
PATHS = {
    "part-0.parquet": False,
    "p=1/part-0.parquet": False,
    "p=a%20b/part-0.parquet": False,
    "p=a:b/part-0.parquet": False,
    "/outside/a.parquet": True,
    "%2Foutside/a.parquet": True,
    "%2foutside/a.parquet": True,
    "file:///outside/a.parquet": True,
    "s3a://secret/a.parquet": True,
    "../../outside/a.parquet": True,
    "p=1/../../outside/a.parquet": True,
    "%2E%2E/.%2e/outside/a.parquet": True,
}


@pytest.mark.parametrize("path", PATHS)
def test_a_path_that_could_lead_elsewhere_is_looked_at(path: str) -> None:
    assert bool(re.search(tables.ODD_PATH, path)) is PATHS[path]


VECTORS: dict[tuple[str, str], list[str]] = {
    ("i", "inline"): [],
    ("p", "file:/outside/v%20.bin"): ["file:/outside/v .bin"],
    ("u", f"../../outside{NAME}"): ["../../outside/deletion_vector"],
    ("u", f"ab{NAME}"): ["ab/deletion_vector"],
}


@pytest.mark.parametrize("vector", VECTORS)
def test_a_deletion_vector_lies_where_its_log_entry_says(vector: tuple[str, str]) -> None:
    kind, where = vector
    assert list(tables.vector_paths({"storageType": kind, "pathOrInlineDv": where})) == VECTORS[vector]


@pytest.fixture
def job(tmp_path: Path) -> Job:
    given: dict[str, Any] = {"boundary": boundary_parameter(str(tmp_path)), "mode": "lite"}
    return Job(session_that_fails_when_used(), given)


@pytest.mark.parametrize("inner", FORMATS)
def test_a_table_around_a_file_is_found_without_a_walk(job: Job, inner: str) -> None:
    """As a lite vacuum checks it on object stores."""
    table = Path(job.boundary.real)
    marker = table / "p=1" / "inner" / MARKERS[inner]
    marker.parent.mkdir(parents=True)
    marker.write_text("")
    vacuum.refuse_tables_around(job, [f"file:{table}/a.parquet", f"file:{table}/p=1/b.parquet"])
    with pytest.raises(OutsideTable, match=f"a {inner} table lies below this one, at {table}/p=1/inner"):
        vacuum.refuse_tables_around(job, [f"file:{table}/p=1/inner/day=1/b.parquet"])
