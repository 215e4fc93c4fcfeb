# SPDX-License-Identifier: Apache-2.0
"""What Iceberg jobs ask of a table before they work on it, before they commit, and before they list; no Spark.

The table is described by what Iceberg's library would answer. Real jobs meet these guards in ``test_iceberg_paths.py``.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lakehand.jobs.boundary import OutsideTable
from lakehand.jobs.iceberg import outside, tables
from lakehand.jobs.job import Job
from lakehand.testing.harness import boundary_parameter
from tests.attacks.attacks import MARKERS
from tests.attacks.every_job import Known, session_that_fails_when_used
from tests.attacks.scene import FORMATS

OWN = "8f2f"


@pytest.fixture
def job(tmp_path: Path) -> Job:
    path = tmp_path / "lake" / "t"
    (path / "metadata").mkdir(parents=True)
    (path / "metadata" / "v1.metadata.json").write_text("{}")
    boundary = boundary_parameter(str(path), extra=str(tmp_path / "lake" / "more files"))
    return Job(session_that_fails_when_used(), {"location": str(path), "identity": OWN, "boundary": boundary})


def described(
    job: Job, *, at: str = "{table}", uuid: str = OWN, properties: Mapping[str, str] | None = None,
    data: str = "{table}/data", metadata: str = "{table}/metadata", log: str = "{table}/metadata/v0.metadata.json",
) -> Any:  # fmt: skip
    """A table as Iceberg's library would show it."""
    whole = {"table": job.boundary.real, "lake": str(Path(job.boundary.real).parent)}
    folder = metadata.format(**whole)
    previous = Known(file=lambda: log.format(**whole))
    current = Known(
        uuid=lambda: uuid, metadataFileLocation=lambda: f"{folder}/v1.metadata.json", previousFiles=lambda: [previous]
    )
    return Known(
        location=lambda: at.format(**whole),
        properties=lambda: dict(properties or {}),
        operations=lambda: Known(current=lambda: current, metadataFileLocation=lambda name: f"{folder}/{name}"),
        locationProvider=lambda: Known(newDataLocation=lambda name: f"{data.format(**whole)}/{name}"),
    )


def test_the_table_that_was_admitted_is_worked_on(job: Job) -> None:
    table = described(job, at="file:{table}/")
    tables.refuse_other(job, table)
    tables.refuse_writes_outside(job, table)
    tables.refuse_deletes_outside(job, described(job, properties={tables.DELETE_AFTER_COMMIT: "true"}))
    outside.refuse_tables_below(job, table)
    assert outside.nested_tables(job, table) == ()


OTHERS: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "another identity": ({"uuid": "0000"}, "another table is at .* now: it is 0000"),
    "next door": ({"at": "{table}2"}, "the table is at .*/t2 now"),
    "above": ({"at": "{lake}"}, "the table is at .*/lake now"),
    "below": ({"at": "{table}/data"}, "the table is at .*/t/data now"),
    "the same path in another bucket": ({"at": "s3://secret{table}"}, "the table is at s3://secret/.* now"),
    "a class that it names": ({"properties": {tables.LOCATION_PROVIDER: "com.example.Evil"}}, "names a class, com.ex"),
}


@pytest.mark.parametrize("attack", OTHERS)
def test_another_table_than_the_admitted_one_is_refused(job: Job, attack: str) -> None:
    shown, said = OTHERS[attack]
    with pytest.raises(OutsideTable, match=said):
        tables.refuse_other(job, described(job, **shown))


def test_work_for_another_location_than_the_admitted_one_is_refused(job: Job) -> None:
    job.parameters["location"] = "/elsewhere"
    with pytest.raises(OutsideTable, match=r"was admitted at .*, and the work was for /elsewhere"):
        tables.refuse_other(job, described(job))


FOLDERS = {
    "{table}/data": True,
    "file:{table}/deep/data": True,
    "{lake}/more files": True,
    "{lake}/others": False,
    "{table}2/data": False,
    "{table}/../others": False,
    "data": False,  # relative to the folder that the driver works in
    "s3://secret{table}/data": False,
}


@pytest.mark.parametrize("kind", ["data", "metadata"])
@pytest.mark.parametrize("folder", FOLDERS)
def test_new_files_are_written_into_the_table_or_where_an_operator_allows_it(job: Job, folder: str, kind: str) -> None:
    shown: dict[str, Any] = {kind: folder}
    if FOLDERS[folder]:
        tables.refuse_writes_outside(job, described(job, **shown))
        return
    with pytest.raises(OutsideTable, match=r"outside of .*extra-locations"):
        tables.refuse_writes_outside(job, described(job, **shown))


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_commit_that_would_delete_metadata_outside_is_refused(job: Job, folder: str) -> None:
    tables.refuse_deletes_outside(job, described(job, log=f"{folder}/v0.metadata.json"))  # it deletes nothing
    table = described(job, log=f"{folder}/v0.metadata.json", properties={tables.DELETE_AFTER_COMMIT: "TRUE"})
    if FOLDERS[folder]:
        tables.refuse_deletes_outside(job, table)
        return
    with pytest.raises(OutsideTable, match=r"delete-after-commit.* would delete files outside of .*v0\.metadata\.json"):
        tables.refuse_deletes_outside(job, table)


def put(job: Job, name: str) -> None:
    file = Path(job.boundary.real) / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("")


@pytest.mark.parametrize("inner", FORMATS)
def test_a_table_below_stops_what_lists_and_is_left_out_by_what_deletes_by_name(job: Job, inner: str) -> None:
    put(job, f"data/inner/{MARKERS[inner]}")
    with pytest.raises(OutsideTable, match=f"a {inner} table lies below this one, at {job.boundary.real}/data/inner "):
        outside.refuse_tables_below(job, described(job))
    assert outside.nested_tables(job, described(job)) == (f"{job.boundary.real}/data/inner",)


@pytest.mark.parametrize("inner", ["hudi", "delta", "paimon", "lance"])
def test_a_table_of_another_format_in_the_same_folder_stops_both(job: Job, inner: str) -> None:
    put(job, MARKERS[inner])
    for guard in (outside.refuse_tables_below, outside.nested_tables):
        with pytest.raises(OutsideTable, match=f"a {inner} table has the same folder as this iceberg table"):
            guard(job, described(job))


def test_a_timeline_of_hudi_without_its_properties_is_a_table_all_the_same(job: Job) -> None:
    put(job, "inner/.hoodie/20990101000000000.commit.requested")
    with pytest.raises(OutsideTable, match="a hudi table lies below this one"):
        outside.refuse_tables_below(job, described(job))


def test_own_metadata_in_a_deeper_folder_is_no_nested_table(job: Job) -> None:
    put(job, "more/metadata/v1.metadata.json")
    table = described(job, metadata="{table}/more/metadata")
    outside.refuse_tables_below(job, table)
    assert outside.nested_tables(job, table) == ()
    with pytest.raises(OutsideTable, match="a iceberg table lies below this one"):
        outside.refuse_tables_below(job, described(job))
