# SPDX-License-Identifier: Apache-2.0
"""SQL that carries values from outside."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehand.jobs.boundary import OutsideTable
from lakehand.jobs.hudi.calls import instant_of, statement
from lakehand.jobs.hudi.checks import refuse_foreign_lock
from lakehand.jobs.job import Job
from lakehand.jobs.spark import literal
from lakehand.testing.harness import boundary_parameter

printable = st.text(st.characters(exclude_categories=["C", "Z"], exclude_characters="\\"), max_size=30)


@given(printable)
def test_a_quoted_text_cannot_end_early(text: str) -> None:
    quoted = literal(text)

    assert quoted[0] == quoted[-1] == "'"
    assert quoted[1:-1].replace("\\'", "").count("'") == 0
    assert quoted[1:-1].replace("\\'", "'") == text


@pytest.mark.parametrize("text", ["a\\", "\\'", "line\nbreak", "nul\0", "alert\a", "tab\t"])
def test_what_cannot_be_quoted_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="quoted"):
        literal(text)


def test_numbers_and_flags_need_no_quotes() -> None:
    call = statement("run_clean", {"table": "it's", "retain_commits": 3, "schedule_in_line": False})

    assert call == "CALL run_clean(table => 'it\\'s', retain_commits => 3, schedule_in_line => false)"


@pytest.mark.parametrize("procedure", ["run_clean(", "x; DROP TABLE y", "Run"])
def test_only_plain_words_name_a_procedure(procedure: str) -> None:
    with pytest.raises(ValueError, match="procedure"):
        statement(procedure, {})


@pytest.mark.parametrize("text", ["", "2026", "20261115190727231'", "20261115190727231,20261115190727232", None, 7])
def test_an_instant_is_14_or_17_digits(text: object) -> None:
    with pytest.raises(ValueError, match="instant"):
        instant_of(text)


LOCK_PATH = "hoodie.write.lock.filesystem.path"


def job_in(lake: Path, lock: str, **parameters: Any) -> Job:
    table = lake / "orders"
    table.mkdir(parents=True, exist_ok=True)
    boundary = boundary_parameter(str(table), warehouses=[str(lake)])
    return Job(session=None, parameters={"boundary": boundary, "options": {LOCK_PATH: lock}, **parameters})  # type: ignore[arg-type]


def test_a_lock_lies_inside_the_table_or_a_folder_that_the_operator_names_for_locks(tmp_path: Path) -> None:
    lake = tmp_path / "lake"

    for path in (f"{lake}/orders/.hoodie/locks", f"file:{lake}/orders/locks"):
        refuse_foreign_lock(job_in(lake, path))
    refuse_foreign_lock(job_in(lake, f"{lake}/locks/orders", operators_lock_folders=[f"{lake}/locks"]))


@pytest.mark.parametrize(
    "path",
    ["/etc/locks", "{lake}/../locks", "{lake}/orders/way", "{lake}/x", "{lake}/orders2", "s3://bucket/locks", "hdfs://a/b"],
)  # fmt: skip
def test_a_lock_elsewhere_is_refused_before_hudi_makes_its_folder(path: str, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    job = job_in(lake, path.format(lake=lake), operators_lock_folders=[f"{lake}/locks"])
    (tmp_path / "elsewhere").mkdir()
    (lake / "orders" / "way").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(OutsideTable, match=r"hudi\.lock-folders"):
        refuse_foreign_lock(job)


@pytest.mark.parametrize("inside", [".hoodie", ".hoodie/locks", "", "locks"])
def test_a_lock_in_another_table_is_refused_also_where_the_operator_allows_locks(inside: str, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    (lake / "victim" / ".hoodie").mkdir(parents=True)
    job = job_in(lake, f"{lake}/victim/{inside}".rstrip("/"), operators_lock_folders=[str(lake)])

    with pytest.raises(OutsideTable, match=f"{lake}/victim"):
        refuse_foreign_lock(job)


def test_a_lock_that_the_operator_named_may_lie_anywhere(tmp_path: Path) -> None:
    refuse_foreign_lock(job_in(tmp_path / "lake", "/locks", operators_lock_path="/locks"))
    with pytest.raises(OutsideTable):
        refuse_foreign_lock(job_in(tmp_path / "lake", "/locks/other", operators_lock_path="/locks"))
