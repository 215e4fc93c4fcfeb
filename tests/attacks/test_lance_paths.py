# SPDX-License-Identifier: Apache-2.0
"""Lance tables that lead out of themselves: by base paths, file names, links, and tables in folders that Lance lists.

What Lance 14.0.2 does when nobody stops it was tried: a clean-up follows links to folders, deletes files of every kind
below ``_indices``, and takes the files of a table below ``data``, ``_indices`` or ``_transactions`` for its own.
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pytest
from pyspark.sql import SparkSession

from lakehand.jobs.attempt import job_called
from lakehand.jobs.boundary import OutsideTable
from lakehand.jobs.job import Job
from lakehand.spi import Operation
from lakehand.testing.harness import PluginHarness, boundary_parameter
from tests import lance_tables, s3_server
from tests.attacks.scene import fingerprint, make_old
from tests.formats.lance.runtime import harness
from tests.jobs.lance.meddling import execute

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
ACTIONS = ("compact", "clean-versions")
ABSENT = {
    ("clean-versions", "foreign base path"): "Lance deletes in the table's own folder only; such files are reported",
    (
        "clean-versions",
        "climbing file name",
    ): "Lance lists folders and compares names; it goes to no path of a manifest",
    ("compact", "table below"): "a compaction lists no folder, unless the table's config makes its commit clean up",
    ("compact", "external manifest store"): "a table is opened by its path: no request can name another scheme for it",
}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Needs both actions: small fragments, and versions that are old."""
    path = lance_tables.make_table(tmp_path / "lake" / "t", fragments=12)
    lance_tables.make_older(path, timedelta(days=20), up_to=9)
    return path


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """Somebody else's table, with old files and some that look like those of every folder."""
    path = lance_tables.make_table(tmp_path / "victim", fragments=2)
    for name in ("1.lance", "1.txn", "0-1-1.arrow", "1.bin", "1.idx", "1.manifest", "note.txt"):
        (path / name).write_text("somebody else's")
    make_old(path)
    return path


@contextmanager
def nothing_changes(table: Path) -> Iterator[None]:
    """Neither outside nor in the table, to the last byte."""
    top = table.parent.parent
    before, facts = fingerprint(top), lance_tables.facts(table)
    yield
    assert fingerprint(top) == before
    assert lance_tables.facts(table) == facts


def admitted(table: Path, action: str, *, session: Any = None, **asked: Any) -> tuple[PluginHarness, Operation]:
    subject = harness(table, session=session)
    return subject, subject.admitted(subject.asked(action, **asked))


def stopped(subject: PluginHarness, operation: Operation) -> str:
    with pytest.raises(OutsideTable) as caught:
        subject.execute(operation)
    return str(caught.value)


@pytest.mark.parametrize("inside", ["data", "data/more", "_indices", "_deletions", "_transactions", "_versions/more"])
@pytest.mark.parametrize("action", ACTIONS)
def test_a_link_in_a_folder_that_lance_lists_is_named_and_not_followed(
    table: Path, victim: Path, action: str, inside: str
) -> None:
    subject, operation = admitted(table, action)  # before: the reader does not even open a table with a link
    if (table / inside).exists():
        shutil.copytree(table / inside, victim / "taken")
        shutil.rmtree(table / inside)
        victim = victim / "taken"
    (table / inside).symlink_to(victim)
    with nothing_changes(table):
        assert f"{table / inside} is a link to {victim}" in stopped(subject, operation)


@pytest.mark.parametrize("folder", ["data/in", "_indices/in", "_transactions/in", "_deletions/in", "in", "tree/in"])
@pytest.mark.parametrize("dry_run", [False, True])
def test_a_table_in_a_folder_that_lance_lists_is_named_and_left_alone(
    table: Path, victim: Path, folder: str, dry_run: bool
) -> None:
    shutil.copytree(victim, table / folder)
    make_old(table / folder)
    with nothing_changes(table):
        said = stopped(*admitted(table, "clean-versions", dry_run=dry_run))
    assert f"a lance table lies below this one, at {table / folder} " in said


def test_branches_are_parts_of_the_table_and_do_not_stop_it(table: Path) -> None:
    for name in ("experiment", "group/one"):
        lance.dataset(str(table)).create_branch(name, 12)
    facts = lance_tables.facts(table)
    subject, operation = admitted(table, "clean-versions")

    done = subject.settled(operation, subject.execute(operation))

    assert done.result["versions_removed"] == 9
    assert lance_tables.facts(table) == facts
    for name in ("experiment", "group/one"):
        assert len(lance.dataset(str(table)).checkout_version((name, None)).to_table()) == 120


@pytest.mark.spark
def test_a_table_whose_commits_clean_up_is_not_compacted_above_another_one(
    spark: SparkSession, table: Path, victim: Path
) -> None:
    """Lance has no switch to leave the clean-up out, which would take the inner table's files for its own."""
    lance.dataset(str(table)).update_config({"lance.auto_cleanup.interval": "1", "lance.auto_cleanup.older_than": "1d"})
    shutil.copytree(victim, table / "data" / "in")
    make_old(table / "data" / "in")
    inner, facts, version = (fingerprint(table / "data" / "in"), lance_tables.facts(table), lance_tables.latest(table))

    said = stopped(*admitted(table, "compact", session=spark))

    assert f"a lance table lies below this one, at {table}/data/in " in said
    assert fingerprint(table / "data" / "in") == inner
    assert (lance_tables.facts(table), lance_tables.latest(table)) == (facts, version)


def name_file(table: Path | str, name: str, base: int | None = None) -> None:
    """A version whose first fragment has its rows in the file of this name."""
    dataset = lance.dataset(str(table))
    fragments = [fragment.metadata for fragment in dataset.get_fragments()]
    file: Any = fragments[0].files[0]
    file._path, file.base_id = name, base
    operation: Any = lance.LanceOperation.Overwrite(dataset.schema, fragments)
    lance.LanceDataset.commit(str(table), operation, read_version=dataset.version)


def name_base(table: Path, victim: Path) -> str:
    """A base path of the table, and one of its fragments in the only data file of it that has rows for it."""
    lance.dataset(str(table)).add_bases([lance.DatasetBasePath(str(victim), name="more", is_dataset_root=True)])
    [number] = lance.dataset(str(table)).base_paths()
    file = lance.dataset(str(victim)).get_fragments()[0].metadata.files[0]
    name_file(table, file.path, number)
    return f"{victim}/data/{file.path}"


def test_a_file_in_a_foreign_base_path_is_not_copied_into_the_table(table: Path, victim: Path) -> None:
    file = name_base(table, victim)
    with nothing_changes(table):
        said = stopped(*admitted(table, "compact"))
    assert f"names 1 files outside of {table}, not ours to rewrite: {file}" in said


def test_old_files_in_a_foreign_base_path_are_left_and_reported(table: Path, victim: Path) -> None:
    file = name_base(table, victim)
    lance_tables.overwrite(table, 0)
    lance_tables.make_older(table, timedelta(days=20), up_to=lance_tables.latest(table) - 1)
    outside = fingerprint(table.parent.parent, but=table)
    subject, operation = admitted(table, "clean-versions")

    done = subject.settled(operation, subject.execute(operation))

    assert (done.result["versions_removed"], done.result["left_outside"]) == (14, 1)
    assert done.result["left_outside_files"] == [file]
    assert fingerprint(table.parent.parent, but=table) == outside
    assert lance_tables.facts(table)[0] == 10


@pytest.mark.spark
def test_a_base_path_that_an_operator_named_belongs_to_the_table(
    spark: SparkSession, table: Path, victim: Path
) -> None:
    name_base(table, victim)
    before, outside = lance_tables.facts(table), fingerprint(victim)
    subject = harness(table, {"extra-locations": str(victim), "lance.compact.target-rows": "300"}, session=spark)
    operation = subject.admitted(subject.asked("compact"))

    subject.settled(operation, subject.execute(operation))

    assert (lance_tables.facts(table), len(lance_tables.fragments(table))) == (before, 1)
    assert fingerprint(victim) == outside, "read, not changed"


@pytest.mark.parametrize("form", ["../../../victim/data/{}", "{victim}/data/{}", "file://{victim}/data/{}"])
def test_a_file_name_that_leads_out_is_named_and_not_rewritten(table: Path, victim: Path, form: str) -> None:
    file = lance.dataset(str(victim)).get_fragments()[0].metadata.files[0].path
    name = form.format(file, victim=victim)
    name_file(table, name)
    before = fingerprint(table.parent.parent)
    assert name in stopped(*admitted(table, "compact"))
    assert fingerprint(table.parent.parent) == before


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[s3_server.Server]:
    with s3_server.s3_server() as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        server.make_bucket("lake")
        server.make_bucket("secret")
        yield server


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_a_base_path_in_another_bucket_is_foreign_and_the_own_bucket_by_another_scheme_is_not(
    table: Path, victim: Path, s3: s3_server.Server, scheme: str
) -> None:
    """The same path in another bucket. The work is admitted on local disk, and the table then put into a bucket."""
    _, compaction = admitted(table, "compact")
    _, cleaning = admitted(table, "clean-versions")
    location = f"{scheme}://lake/db/t"
    bounded = {"boundary": boundary_parameter(location, warehouses=["s3://lake"])}
    s3.put_folder(table, "lake", "db/t")
    s3.put_folder(victim, "secret", "db/t")

    done = job_called("lance.clean_versions")(Job(None, {**cleaning.process.parameters, **bounded}))  # type: ignore[arg-type]
    assert done["versions_removed"] == 9, "its own files are in its own bucket"
    lance.dataset("s3://lake/db/t").add_bases([lance.DatasetBasePath("s3://secret/db/t", is_dataset_root=True)])
    file = lance.dataset(str(victim)).get_fragments()[0].metadata.files[0].path
    name_file("s3://lake/db/t", file, next(iter(lance.dataset("s3://lake/db/t").base_paths())))
    before = s3.everything()

    with pytest.raises(OutsideTable, match=f"not ours to rewrite: s3://secret/db/t/data/{file}"):
        job_called("lance.compact")(Job(None, {**compaction.process.parameters, **bounded}))  # type: ignore[arg-type]
    assert s3.everything() == before


def swap_content(table: Path, other: Path) -> Callable[[], None]:
    """The same folder, so that its inode is the same, with the content of another table."""

    def swap() -> None:
        for folder in table.iterdir():
            shutil.rmtree(folder)
        shutil.copytree(other, table, dirs_exist_ok=True)

    return swap


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("fragments", [12, 3], ids=["as many versions", "fewer versions"])
def test_another_table_in_the_same_folder_is_not_worked_on(
    table: Path, tmp_path: Path, action: str, fragments: int
) -> None:
    other = lance_tables.make_table(tmp_path / "other", fragments=fragments)
    lance_tables.make_older(other, timedelta(days=20), up_to=fragments - 1)
    subject, operation = admitted(table, action)
    swap_content(table, other)()
    with nothing_changes(table):
        assert f"another table is at {table} now" in stopped(subject, operation)


@pytest.mark.parametrize("action", ACTIONS)
def test_work_that_does_not_say_which_table_it_is_for_is_refused(table: Path, action: str) -> None:
    subject, operation = admitted(table, action)
    parameters: Any = operation.process.parameters
    del parameters["identity"]
    with nothing_changes(table):
        assert "does not say which table" in stopped(subject, operation)


MOMENTS = {"compact": "committing", "clean-versions": "removing 9 versions"}


@pytest.mark.spark
@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("attack", ["link", "folder", "content"])
def test_what_happens_in_the_middle_of_the_job_is_seen_before_it_commits_or_deletes(
    spark: SparkSession, table: Path, victim: Path, action: str, attack: str
) -> None:
    top = table.parent.parent
    subject, operation = admitted(table, action, session=spark)
    outside: dict[str, str] = {}

    def meddle() -> None:
        if attack == "link":
            (table / "_indices").symlink_to(victim)
        elif attack == "folder":
            table.rename(top / "moved")
            shutil.copytree(victim, table)
        else:
            swap_content(table, victim)()
        outside.update(fingerprint(top))

    with pytest.raises(OutsideTable) as caught:
        execute(subject, operation, MOMENTS[action], meddle)
    said = {"link": "is a link to", "folder": "is another folder now", "content": "another table is at"}
    assert said[attack] in str(caught.value)
    assert fingerprint(top) == outside
