# SPDX-License-Identifier: Apache-2.0
"""Lance tables that lead out of themselves: by base paths, file names, links, and tables in folders that Lance lists.

What Lance 14.0.2 does when nobody stops it was tried: a clean-up follows links to folders, deletes files of every kind
below ``_indices``, and takes the files of a table below ``data``, ``_indices`` or ``_transactions`` for its own.
Attacks that do not exist: base paths and climbing names for clean-versions, which lists folders and compares names;
an external manifest store, since a table is opened by its path and no request can name another scheme for it.

Lance needs no Spark but to spread a compaction over executors: here its tasks run in this process, but for one test.
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import pytest

from lakehand.jobs.attempt import job_called
from lakehand.jobs.boundary import OutsideTable
from lakehand.jobs.job import Job
from lakehand.spi import Operation
from lakehand.testing.harness import PluginHarness, boundary_parameter
from tests import lance_tables
from tests.attacks.every_job import Known, make_lance_table
from tests.attacks.scene import fingerprint, make_old
from tests.formats.lance.runtime import harness
from tests.kit.interruptions import Interruptions, run_job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.s3_server import Server

ACTIONS = ("compact", "clean-versions", "optimize-indices")
CLEANS_UP: dict[str, str | None] = {"lance.auto_cleanup.interval": "1", "lance.auto_cleanup.older_than": "1d"}


class TasksHere:
    """Spark's context, as far as a compaction uses it: the tasks run one after the other, in this process."""

    def __init__(self) -> None:
        self.parallelize = lambda items, _: Known(map=lambda run: Known(collect=lambda: [run(one) for one in items]))
        self.getConf = lambda: Known(getAll=list)


def session_with_tasks_here() -> Any:
    return Known(sparkContext=TasksHere())


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables of Lance hold no absolute paths: each test has a copy."""
    folder = tmp_path_factory.mktemp("lance")
    lance_tables.make_table(folder / "plain", fragments=12)
    lance_tables.make_older(folder / "plain", timedelta(days=20), up_to=9)
    make_lance_table(folder / "indexed")
    victim = lance_tables.make_table(folder / "victim", fragments=2)
    for name in ("1.lance", "1.txn", "0-1-1.arrow", "1.bin", "1.idx", "1.manifest", "note.txt"):
        (victim / name).write_text("somebody else's")
    make_old(victim)
    return folder


@pytest.fixture
def table(templates: Path, tmp_path: Path) -> Path:
    """Small fragments, and versions that are old."""
    return Path(shutil.copytree(templates / "plain", tmp_path / "lake" / "t"))


@pytest.fixture
def indexed(templates: Path, tmp_path: Path) -> Path:
    """Needs all three actions: its index misses rows, too."""
    return Path(shutil.copytree(templates / "indexed", tmp_path / "lake" / "t"))


@pytest.fixture
def victim(templates: Path, tmp_path: Path) -> Path:
    """Somebody else's table, with old files and some that look like those of every folder."""
    return Path(shutil.copytree(templates / "victim", tmp_path / "victim"))


@contextmanager
def nothing_changes(table: Path) -> Iterator[None]:
    """Neither outside nor in the table, to the last byte."""
    top = table.parent.parent
    before, facts = fingerprint(top), lance_tables.facts(table)
    yield
    assert fingerprint(top) == before
    assert lance_tables.facts(table) == facts


def admitted(table: Path, action: str, **asked: Any) -> tuple[PluginHarness, Operation]:
    subject = harness(table)
    return subject, subject.admitted(subject.asked(action, **asked))


def execute(operation: Operation, step: str = "", act: Callable[[], object] = lambda: None) -> dict[str, Any]:
    """The job, with an act when it comes to a step."""
    record = Interruptions(hooks={step: act} if step else {})
    job = Job(session_with_tasks_here(), dict(operation.process.parameters), record=record)
    result: dict[str, Any] = job_called(operation.process.job)(job)
    return result


def stopped(_: PluginHarness, operation: Operation) -> str:
    with pytest.raises(OutsideTable) as caught:
        execute(operation)
    return str(caught.value)


@pytest.mark.parametrize("inside", ["data", "data/more", "_indices", "_deletions", "_transactions", "_versions/more"])
@pytest.mark.parametrize("action", ACTIONS)
def test_a_link_in_a_folder_that_lance_lists_is_named_and_not_followed(
    indexed: Path, victim: Path, action: str, inside: str
) -> None:
    subject, operation = admitted(indexed, action)  # before: the reader does not even open a table with a link
    if (indexed / inside).exists():
        shutil.copytree(indexed / inside, victim / "taken")
        shutil.rmtree(indexed / inside)
        victim = victim / "taken"
    (indexed / inside).symlink_to(victim)
    with nothing_changes(indexed):
        assert f"{indexed / inside} is a link to {victim}" in stopped(subject, operation)


@pytest.mark.parametrize("folder", ["data/in", "_indices/in", "_transactions/in", "_deletions/in", "in", "tree/in"])
@pytest.mark.parametrize("dry_run", [False, True])
def test_a_table_in_a_folder_that_lance_lists_is_named_and_left_alone(
    table: Path, victim: Path, folder: str, dry_run: bool
) -> None:
    shutil.copytree(victim, table / folder)
    with nothing_changes(table):
        said = stopped(*admitted(table, "clean-versions", dry_run=dry_run))
    assert f"a lance table lies below this one, at {table / folder} " in said


def test_branches_are_parts_of_the_table_and_do_not_stop_it(table: Path) -> None:
    for name in ("experiment", "group/one"):
        lance.dataset(str(table)).create_branch(name, 12)
    facts = lance_tables.facts(table)
    subject, operation = admitted(table, "clean-versions")

    done = subject.settled(operation, execute(operation))

    assert done.result["versions_removed"] == 9
    assert lance_tables.facts(table) == facts
    for name in ("experiment", "group/one"):
        assert len(lance.dataset(str(table)).checkout_version((name, None)).to_table()) == 120


@pytest.mark.parametrize("action", ["compact", "optimize-indices"])
def test_a_table_whose_commits_clean_up_is_left_alone_above_another_one(
    indexed: Path, victim: Path, action: str
) -> None:
    """Lance has no switch to leave the clean-up out, which would take the inner table's files for its own."""
    lance.dataset(str(indexed)).update_config(CLEANS_UP)
    shutil.copytree(victim, indexed / "data" / "in")
    inner, facts, version = (
        fingerprint(indexed / "data" / "in"),
        lance_tables.facts(indexed),
        lance_tables.latest(indexed),
    )

    said = stopped(*admitted(indexed, action))

    assert f"a lance table lies below this one, at {indexed}/data/in " in said
    assert fingerprint(indexed / "data" / "in") == inner
    assert (lance_tables.facts(indexed), lance_tables.latest(indexed)) == (facts, version)


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


@pytest.mark.parametrize("action", ["compact", "optimize-indices"])
def test_a_file_in_a_foreign_base_path_is_read_neither_into_the_table_nor_into_an_index(
    table: Path, victim: Path, action: str
) -> None:
    file = name_base(table, victim)
    if action == "optimize-indices":
        lance.dataset(str(table)).create_scalar_index("id", "BTREE")
        lance_tables.append(table, 1000)
    with nothing_changes(table):
        said = stopped(*admitted(table, action))
    assert f"names 1 files outside of {table}, not ours to rewrite: {file}" in said


def test_old_files_in_a_foreign_base_path_are_left_and_reported(table: Path, victim: Path) -> None:
    file = name_base(table, victim)
    lance_tables.overwrite(table, 0)
    lance_tables.make_older(table, timedelta(days=20), up_to=lance_tables.latest(table) - 1)
    outside = fingerprint(table.parent.parent, but=table)
    subject, operation = admitted(table, "clean-versions")

    done = subject.settled(operation, execute(operation))

    assert (done.result["versions_removed"], done.result["left_outside"]) == (14, 1)
    assert done.result["left_outside_files"] == [file]
    assert fingerprint(table.parent.parent, but=table) == outside
    assert lance_tables.facts(table)[0] == 10


def test_a_base_path_that_an_operator_named_belongs_to_the_table(table: Path, victim: Path) -> None:
    name_base(table, victim)
    before, outside = lance_tables.facts(table), fingerprint(victim)
    subject = harness(table, {"extra-locations": str(victim), "lance.compact.target-rows": "300"})
    operation = subject.admitted(subject.asked("compact"))

    subject.settled(operation, execute(operation))

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


@pytest.fixture(scope="module")
def s3() -> "Iterator[Server]":
    from tests.s3_server import s3_server

    with s3_server() as server, pytest.MonkeyPatch.context() as environment:
        for name, value in server.environment().items():
            environment.setenv(name, value)
        server.make_bucket("lake")
        server.make_bucket("secret")
        yield server


@pytest.mark.server
@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_a_base_path_in_another_bucket_is_foreign_and_the_own_bucket_by_another_scheme_is_not(
    table: Path, victim: Path, s3: "Server", scheme: str
) -> None:
    """The same path in another bucket. The work is admitted on local disk, and the table then put into a bucket."""
    _, compaction = admitted(table, "compact")
    _, cleaning = admitted(table, "clean-versions")
    path = f"db/{scheme}"
    bounded = {"boundary": boundary_parameter(f"{scheme}://lake/{path}", warehouses=["s3://lake"])}
    s3.put_folder(table, "lake", path)
    s3.put_folder(victim, "secret", path)

    done = job_called("lance.clean_versions")(Job(None, {**cleaning.process.parameters, **bounded}))  # type: ignore[arg-type]
    assert done["versions_removed"] == 9, "its own files are in its own bucket"
    lance.dataset(f"s3://lake/{path}").add_bases([lance.DatasetBasePath(f"s3://secret/{path}", is_dataset_root=True)])
    file = lance.dataset(str(victim)).get_fragments()[0].metadata.files[0].path
    name_file(f"s3://lake/{path}", file, next(iter(lance.dataset(f"s3://lake/{path}").base_paths())))
    before = s3.everything()

    with pytest.raises(OutsideTable, match=f"not ours to rewrite: s3://secret/{path}/data/{file}"):
        job_called("lance.compact")(Job(None, {**compaction.process.parameters, **bounded}))  # type: ignore[arg-type]
    assert s3.everything() == before


def swap_content(table: Path, other: Path) -> None:
    """The same folder, so that its inode is the same, with the content of another table."""
    for folder in table.iterdir():
        shutil.rmtree(folder) if folder.is_dir() else folder.unlink()
    shutil.copytree(other, table, dirs_exist_ok=True)


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("is_twin", [True, False], ids=["as many versions", "fewer versions"])
def test_another_table_in_the_same_folder_is_not_worked_on(
    indexed: Path, victim: Path, tmp_path: Path, action: str, *, is_twin: bool
) -> None:
    if is_twin:
        make_lance_table(tmp_path / "twin")
    _, operation = admitted(indexed, action)
    swap_content(indexed, tmp_path / "twin" if is_twin else victim)
    with nothing_changes(indexed), pytest.raises(OutsideTable, match=f"another table is at {indexed} now"):
        execute(operation)


@pytest.mark.parametrize("action", ACTIONS)
def test_work_that_does_not_say_which_table_it_is_for_is_refused(indexed: Path, action: str) -> None:
    subject, operation = admitted(indexed, action)
    parameters: Any = operation.process.parameters
    del parameters["identity"]
    with nothing_changes(indexed):
        assert "does not say which table" in stopped(subject, operation)


# The last step before each function that commits or deletes: what happens there is seen right after it.
STEPS = {"compact": "committing", "clean-versions": "removing", "optimize-indices": "optimising"}
MIDDLE: dict[str, tuple[Callable[[Path, Path], object], str]] = {
    "link": (lambda table, victim: (table / "more").symlink_to(victim), "is a link to"),
    "folder": (
        lambda table, victim: (table.rename(victim / "moved"), shutil.copytree(victim, table)),
        "is another folder now",
    ),
    "content": (swap_content, "another table is at"),
}


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("attack", MIDDLE)
def test_what_happens_in_the_middle_of_the_job_is_seen_before_it_commits_or_deletes(
    indexed: Path, victim: Path, action: str, attack: str
) -> None:
    act, said = MIDDLE[attack]
    _, operation = admitted(indexed, action)
    outside: dict[str, str] = {}

    def meddle() -> None:
        act(indexed, victim)
        outside.update(fingerprint(victim.parent))

    with pytest.raises(OutsideTable, match=said):
        execute(operation, STEPS[action], meddle)
    assert fingerprint(victim.parent) == outside


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
def test_a_link_that_is_made_while_executors_rewrite_is_seen_before_the_commit(
    spark: "SparkSession", indexed: Path, victim: Path
) -> None:
    _, operation = admitted(indexed, "compact")
    outside: dict[str, str] = {}

    def meddle() -> None:
        (indexed / "more").symlink_to(victim)
        outside.update(fingerprint(victim.parent))

    with pytest.raises(OutsideTable, match="more is a link to"):
        run_job(spark, "lance.compact", operation.process.parameters, Interruptions(hooks={"committing": meddle}))
    assert fingerprint(victim.parent) == outside
