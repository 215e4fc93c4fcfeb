# SPDX-License-Identifier: Apache-2.0
"""What Paimon jobs refuse in a table's schemas, snapshots and manifests before they use them; no Spark.

Snapshots and manifests are described by what Paimon's library would answer. Real jobs meet these guards in
``test_paimon_paths.py``. Values of partitions lead nowhere: Paimon escapes slashes in their folders, and each begins
with its column.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from lakehand.jobs.boundary import JobBoundary, OutsideTable
from lakehand.jobs.job import Job
from lakehand.jobs.paimon import expire_tags
from lakehand.jobs.paimon.outside import TableGuard, names_of, refuse_odd_options
from lakehand.jobs.paimon.references import ChangelogNames
from tests.attacks.attacks import PLAIN, AttackedTable, nest
from tests.attacks.every_job import (
    JOBS,
    SCHEMA,
    Known,
    SessionUsed,
    make_place,
    make_small_table,
    run,
    session_that_fails_when_used,
    work_for,
)
from tests.attacks.scene import nothing_changes
from tests.formats.paimon.handmade import HandMade, small
from tests.formats.paimon.runtime import harness

PAIRS = [pair for pair in JOBS if pair.startswith("paimon-")]


@pytest.fixture
def place(tmp_path: Path) -> AttackedTable:
    make_small_table("paimon", tmp_path / "small")
    return make_place(tmp_path / "top", "paimon", tmp_path / "small", PLAIN)


def set_option(place: AttackedTable, key: str, value: str, file: str = "schema/schema-1") -> None:
    """A change of options is a new schema, as Paimon makes one; the first stays as it was."""
    schema = json.loads(SCHEMA)
    schema["options"][key] = value.format(outside=place.outside, table=place.table)
    (place.table / file).parent.mkdir(parents=True, exist_ok=True)
    (place.table / file).write_text(json.dumps(schema))


SCHEMAS: Mapping[str, tuple[Callable[[AttackedTable], object], str]] = {
    "another table in the same folder": (
        lambda place: (place.table / "schema" / "schema-0").write_text(SCHEMA + "\n"),
        "another table is at {table} now",
    ),
    "no schema": (lambda place: (place.table / "schema" / "schema-0").unlink(), "another table is at {table} now"),
    "an option that moves the data": (
        lambda place: set_option(place, "path", "{outside}"),
        "schema-1 has the option path='{outside}'",
    ),
    "an option that moves new files": (
        lambda place: set_option(place, "data-file.prefix", "../../outside/new-"),
        "schema-1 has the option data-file.prefix='../../outside/new-'",
    ),
    "an option of a branch": (
        lambda place: set_option(place, "path", "{outside}", "branch/branch-b/schema/schema-0"),
        "branch/branch-b/schema/schema-0 has the option path='{outside}'",
    ),
}


@pytest.mark.parametrize("attack", SCHEMAS)
@pytest.mark.parametrize("pair", PAIRS)
def test_a_schema_that_leads_out_stops_every_job_before_it_uses_its_session(
    place: AttackedTable, pair: str, attack: str
) -> None:
    act, said = SCHEMAS[attack]
    work = work_for(pair, place)
    act(place)
    with nothing_changes(place.outside.parent):
        for dry_run in (False, True):
            with pytest.raises(OutsideTable) as caught:
                run(pair, {**work, "dry_run": dry_run}, session_that_fails_when_used())
            assert said.format(**vars(place)) in str(caught.value)


@pytest.mark.parametrize("pair", PAIRS)
def test_work_that_does_not_say_which_table_it_is_for_is_refused(place: AttackedTable, pair: str) -> None:
    work = {**work_for(pair, place), "identity": ""}
    with pytest.raises(OutsideTable, match="does not say which table"):
        run(pair, work, session_that_fails_when_used())


@pytest.mark.parametrize("name", ["../../../victim/tag-over", "x/../../../../../victim/tag-over"])
def test_the_name_of_a_tag_does_not_lead_out(place: AttackedTable, name: str) -> None:
    work = {**work_for("paimon-expire-tags", place), "tags": [{"name": name, "sign": "b", "why": "time"}]}
    with pytest.raises(OutsideTable) as caught:
        run("paimon-expire-tags", work, session_that_fails_when_used())
    assert f"names the file 'tag-{name}', which would lead out" in str(caught.value)


FOLDERS = {"in": False, "bucket-0/in": False, "p=7": False, "manifest/in": False, "branch/in": False} | {
    "branch/branch-own": True  # a branch is a part of the table
}


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_table_in_a_folder_that_paimon_lists_stops_the_removal_of_orphans(place: AttackedTable, folder: str) -> None:
    work = work_for("paimon-remove-orphans", place)
    nest("paimon", place, at=f"{folder}/")
    (place.table / folder / "schema" / "schema-0").write_text(SCHEMA)
    if FOLDERS[folder]:
        with pytest.raises(SessionUsed):
            run("paimon-remove-orphans", work, session_that_fails_when_used())
        return
    with pytest.raises(OutsideTable, match=f"a paimon table lies below this one, at {place.table / folder} "):
        run("paimon-remove-orphans", work, session_that_fails_when_used())


def test_the_service_does_not_read_a_list_whose_name_leads_out(tmp_path: Path) -> None:
    table = HandMade(tmp_path / "t")
    table.commit(small(20))
    file = tmp_path / "t" / "snapshot" / "snapshot-1"
    file.write_text(json.dumps({**json.loads(file.read_text()), "deltaManifestList": "/victim/v.parquet"}))
    with pytest.raises(OSError, match="names a file that is not in its own folder"):
        harness(tmp_path / "t").wants("compact")


HERE = JobBoundary(location="/lake/t", real="/lake/t", warehouses=("/lake",), extra=("/lake/more",))
OPTIONS = {
    ("path", "/lake/t"): True,
    ("path", "file:/lake/t"): True,
    ("path", "/lake/t/inside"): False,
    ("branch", "main"): True,
    ("branch", "x/../../../../victim"): False,
    ("branch", "other"): False,
    ("data-file.prefix", "data-"): True,
    ("data-file.prefix", "/victim/data-"): False,
    ("changelog-file.prefix", "../x-"): False,
    ("data-file.path-directory", "data"): False,
    ("data-file.external-paths", "/lake/t/data"): False,
    ("data-file.external-paths.strategy", "round-robin"): False,
    ("some.option.of.tomorrow", "s3://other/place"): False,
    ("some.option.of.tomorrow", "/lake/t/a,/elsewhere/b"): False,
    ("some.option.of.tomorrow", "/lake/t/a, /lake/more/b"): True,
    ("partition.timestamp-formatter", "yyyy/MM/dd"): True,
    ("kafka.bootstrap.servers", "a:9092,b:9092"): True,
    ("fields.note.default-value", "/etc"): True,
    ("comment", "see /etc or http://x"): True,
}


@pytest.mark.parametrize("option", OPTIONS, ids="=".join)
def test_options_stay_inside_or_are_refused_by_their_name(option: tuple[str, str]) -> None:
    key, value = option
    if OPTIONS[option]:
        refuse_odd_options(HERE, {key: value}, "schema-0")
        return
    with pytest.raises(OutsideTable, match=f"schema-0 has the option {key}="):
        refuse_odd_options(HERE, {key: value}, "schema-0")


def test_an_option_that_moves_the_data_to_another_bucket_is_refused() -> None:
    there = JobBoundary(location="s3a://lake/t", real="s3a://lake/t", warehouses=("s3://lake",))
    refuse_odd_options(there, {"path": "s3://lake/t"}, "schema-0")
    with pytest.raises(OutsideTable, match="schema-0 has the option path='s3a://secret/t'"):
        refuse_odd_options(there, {"path": "s3a://secret/t"}, "schema-0")


class Entries(list[dict[str, Any]]):
    """As Java lists them."""

    def size(self) -> int:
        return len(self)


def texts(entries: Entries, *calls: str) -> list[str]:
    """What a chain of getters returns for each entry; a list counts for its items."""
    found = [entry[calls[-1]] for entry in entries]
    return [text for one in found for text in (one if isinstance(one, list) else [one])]


# A snapshot with all that one may name, and what is in the files that it names.
NAMES = {
    "manifest list": "manifest-list-1",
    "base manifest list": "manifest-list-0",
    "changelog manifest list": "manifest-list-2",
    "index manifest": "index-manifest-1",
    "statistics": "stats-1",
    "manifest": "manifest-1",
    "data file": "data-1.parquet",
    "extra file": "data-1.parquet.index",
    "index file": "index-1",
}
ODD = ["../../victim/v.parquet", "/victim/v.parquet", "s3://secret/v.parquet", "..", "a\\b", "a\nb"]


def check_snapshot(names: Mapping[str, str]) -> None:
    """What a guard makes of a snapshot and of what it names."""
    metas = Entries([{"fileName": names["manifest"]}])
    files = Entries([{"fileName": names["data file"], "extraFiles": [names["extra file"]]}])
    indexed = Entries([{"fileName": names["index file"]}])
    lists = Known(exists=lambda _: True, readWithIOException=lambda _: metas)
    manifests = Known(exists=lambda _: True, readWithIOException=lambda _: files)
    store = Known(
        manifestListFactory=lambda: Known(create=lambda: lists),
        manifestFileFactory=lambda: Known(create=lambda: manifests),
        newIndexFileHandler=lambda: Known(existsManifest=lambda _: True, readManifestWithIOException=lambda _: indexed),
    )
    snapshot = Known(
        id=lambda: 7,
        baseManifestList=lambda: names["base manifest list"],
        deltaManifestList=lambda: names["manifest list"],
        changelogManifestList=lambda: names["changelog manifest list"],
        indexManifest=lambda: names["index manifest"],
        statistics=lambda: names["statistics"],
    )
    job, target = Job(session_that_fails_when_used(), {}), Known(texts=texts)
    TableGuard(job, target).check_snapshot(store, snapshot)  # type: ignore[arg-type]


def test_a_snapshot_of_plain_names_is_used() -> None:
    check_snapshot(NAMES)


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("what", NAMES)
def test_a_name_that_leads_out_is_refused_wherever_a_snapshot_leads_to_it(what: str, odd: str) -> None:
    with pytest.raises(OutsideTable) as caught:
        check_snapshot({**NAMES, what: odd})
    assert f"names the file {odd!r}, which would lead out" in str(caught.value)


@pytest.mark.parametrize("names", [["a", "b, c"], ["a]"]])
def test_a_name_that_comes_in_pieces_is_none_of_paimons(names: Sequence[str]) -> None:
    pieces = [piece for name in names for piece in name.replace("]", ", ").split(", ")]
    entries = Entries([{"fileName": name} for name in names])
    with pytest.raises(OutsideTable, match="has names that are not names of Paimon's"):
        names_of(Known(texts=lambda *_: pieces), entries, "manifest-1", "fileName")  # type: ignore[arg-type]


def test_files_that_a_changelog_still_reads_do_not_go_with_a_tag(monkeypatch: pytest.MonkeyPatch) -> None:
    """The changelog has no snapshot any more, and is of the main line or of a branch."""
    own = {"data": {"d1", "d2"}, "metadata": {"manifest/m1", "manifest/m2", "index/i1"}}
    monkeypatch.setattr(expire_tags, "contents_of", lambda *_: expire_tags.Contents(**own))
    monkeypatch.setattr(expire_tags, "data_paths", lambda store, snapshot, names: sorted(names))
    monkeypatch.setattr("lakehand.jobs.paimon.references.named_by", lambda store, one, *_, **__: one.names)
    monkeypatch.setattr("lakehand.jobs.paimon.references.lists_left", lambda *_: set())
    job = Job(session_that_fails_when_used(), {})
    guard = Known(job=job, check_snapshot=lambda *_: None)

    def changelog(number: int, *names: str) -> Known:
        return Known(id=lambda: number, deltaManifestList=lambda: f"list-{number}", names=set(names))

    lines = {
        "main": line_of([changelog(1, "d1", "m1")], tags={Known(id=lambda: 6): ["over"]}),
        "b": line_of([changelog(2, "i1")]),
    }
    table = lines["main"]
    table.__dict__.update(switchToBranch=lines.__getitem__, branchManager=lambda: Known(branches=lambda: ["b"]))

    found = expire_tags.files_only_of(guard, table, "over", set(), ChangelogNames(guard))  # type: ignore[arg-type]

    assert found == ["d2", "/t/manifest/m2"]


def line_of(changelogs: Sequence[Known], tags: Mapping[Known, list[str]] | None = None) -> Known:
    """A main line or a branch whose snapshots have all expired."""
    entries = [
        Known(getKey=lambda key=key: key, getValue=lambda names=names: names) for key, names in (tags or {}).items()
    ]
    snapshots = Known(
        safelyGetAllChangelogs=lambda: changelogs, snapshotExists=lambda _: False, earliestSnapshot=lambda: None,
        latestSnapshot=lambda: None, latestSnapshotId=lambda: None, earliestSnapshotId=lambda: None,
    )  # fmt: skip
    return Known(
        snapshotManager=lambda: snapshots, store=Known, location=lambda: Known(toString=lambda: "/t"),
        tagManager=lambda: Known(tags=lambda: Known(entrySet=lambda: entries), taggedSnapshots=list),
    )  # fmt: skip
