# SPDX-License-Identifier: Apache-2.0
"""By number, by time, or both: one rule for every format, with the time passed."""

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from lakehand.formats.delta import DeltaProcessFactory
from lakehand.formats.hudi import HudiProcessFactory
from lakehand.formats.iceberg import IcebergProcessFactory
from lakehand.formats.lance import LanceProcessFactory
from lakehand.formats.paimon import PaimonProcessFactory
from lakehand.spi import Action, Instant, Skip, Status, TableProcess
from tests import lance_tables
from tests.formats.delta.logs import LogTable, add, metadata
from tests.formats.hudi.runtime import commit as commit_to
from tests.formats.hudi.runtime import operation, timeline
from tests.formats.iceberg.made import MB, MadeRuntime, ago, commit, data, deletes, snapshot
from tests.formats.lance.runtime import SMALL
from tests.formats.lance.runtime import harness as lance_harness
from tests.formats.paimon.handmade import File, HandMade, small
from tests.formats.paimon.runtime import harness as paimon_harness
from tests.formats.triggered import (
    CLEANING,
    CLUSTERING,
    COMPACT,
    COMPACTION,
    DAY,
    EVERY,
    MERGE,
    NOON,
    OPTIMIZE,
    PACK,
    REWRITE_DATA,
    REWRITE_DELETES,
    Triggered,
    hours,
    hudi_runtime,
    hudi_table,
    in_utc,
)
from tests.kit.sentences import Sentences

MINUTE = timedelta(minutes=1)
OLD, YOUNG = hours(30, 29, 28), hours(3, 2, 1)
FACTORIES = [
    HudiProcessFactory, IcebergProcessFactory, DeltaProcessFactory, PaimonProcessFactory, LanceProcessFactory
]  # fmt: skip


@pytest.mark.parametrize("subject", EVERY, ids=str)
@pytest.mark.parametrize(
    ("trigger", "due"),
    [
        ("num", {"enough"}),
        ("time", {"old"}),
        ("num-or-time", {"enough", "old"}),
        ("num-and-time", set()),
    ],
)
def test_an_action_is_due_by_number_by_time_by_either_or_by_both(
    subject: Triggered, trigger: str, due: set[str], tmp_path: Path
) -> None:
    answers = {
        "enough": subject.decide(tmp_path, YOUNG, number=3, trigger=trigger),
        "old": subject.decide(tmp_path, OLD, number=4, trigger=trigger),
        "both": subject.decide(tmp_path, OLD, number=3, trigger=trigger),
        "neither": subject.decide(tmp_path, YOUNG, number=4, trigger=trigger),
    }

    assert {case for case, answer in answers.items() if isinstance(answer, TableProcess)} == {*due, "both"}, answers


@pytest.mark.parametrize("subject", EVERY, ids=str)
@pytest.mark.parametrize("trigger", ["time", "num-or-time"])
def test_a_silent_table_is_due_when_its_oldest_change_is_old_enough_and_not_before(
    subject: Triggered, trigger: str, tmp_path: Path
) -> None:
    settings: dict[str, Any] = {"trigger": trigger, "max_age": "36h"}
    left = timedelta(hours=36) - subject.age(OLD)

    waiting = subject.decide(tmp_path, OLD, **settings)
    before = subject.decide(tmp_path, OLD, at=NOON + left - MINUTE, **settings)
    then = subject.decide(tmp_path, OLD, at=NOON + left, **settings)

    assert isinstance(waiting, Skip)
    assert isinstance(before, Skip)
    assert (waiting.look_again, before.look_again) == (left, MINUTE)
    assert waiting.reason == before.reason, "the reason of an unchanged table stays"
    assert isinstance(then, TableProcess), then


@pytest.mark.parametrize("subject", EVERY, ids=str)
def test_one_change_is_merged_by_age_only_where_that_saves_something(subject: Triggered, tmp_path: Path) -> None:
    answer = subject.decide(tmp_path, hours(900), trigger="time", max_age="1m")

    assert isinstance(answer, TableProcess if subject.least == 1 else Skip)
    if isinstance(answer, Skip):
        assert answer.look_again is None, "no time alone makes it worth it"


@pytest.mark.parametrize("subject", [one for one in EVERY if one.format != "hudi"], ids=str)
def test_what_a_rewrite_left_does_not_count_as_an_old_change(subject: Triggered, tmp_path: Path) -> None:
    """A file that could not be merged with any other until the newest one came: age begins there."""
    answer = subject.decide(tmp_path, hours(900, 2), trigger="time")

    assert isinstance(answer, Skip)
    assert answer.look_again == DAY - timedelta(hours=2)


@pytest.mark.parametrize("factory", FACTORIES)
def test_by_default_the_number_decides_alone(factory: Any) -> None:
    rows = {row.key: row for row in factory().settings.rows}
    triggers = {key: row for key, row in rows.items() if key.endswith(".trigger")}

    assert triggers
    assert {row.default for row in triggers.values()} == {"num"}
    ages = [rows[key.removesuffix("trigger") + "max-age"] for key in triggers]
    assert {(row.default, row.floor) for row in ages} == {(DAY, MINUTE)}


def test_the_reason_has_the_number_the_age_and_when_it_is_due(tmp_path: Path, sentences: Sentences) -> None:
    hour: dict[str, Any] = {"number": 4, "max_age": "1h"}

    waiting = COMPACTION.decide(tmp_path, hours(0.75, 0.5, 0.25), trigger="num-or-time", **hour)
    found = {"commits": 3, "needed": 4, "oldest": "2026-11-15 11:15", "due": "12:15"}
    sentences.check("too few delta commits, and due by age", waiting.reason, **found)
    tomorrow = COMPACTION.decide(tmp_path, hours(0.75, 0.5, 0.25), number=4, trigger="num-or-time")
    found = {"commits": 3, "needed": 4, "oldest": "2026-11-15 11:15", "due": "2026-11-16 11:15"}
    sentences.check("too few delta commits, and due by age", tomorrow.reason, **found)
    both = COMPACTION.decide(tmp_path, hours(3, 2, 1), trigger="num-and-time", **hour)
    found = {"commits": 3, "needed": 4, "oldest": "2026-11-15 09:00", "trigger": "num-and-time"}
    sentences.check("too few delta commits, which are old enough", both.reason, **found)
    due = COMPACTION.decide(tmp_path, hours(3, 2, 1), trigger="num-or-time", **hour)
    sentences.check("old delta commits", due.reason, commits=3, oldest="2026-11-15 09:00", age="1h")
    enough = COMPACTION.decide(tmp_path, hours(3, 2, 1), trigger="num-or-time", number=3, max_age="1h")
    sentences.check("enough delta commits, without a compaction", enough.reason, commits=3)


# Hudi


@pytest.mark.parametrize("name", ["orders_v6", "orders_v9"])
def test_instants_are_times_only_where_the_timeline_is_in_utc(name: str, tmp_path: Path) -> None:
    """The files say 11 to 9 hours ago. The names say nine hours later, as of a writer in Tokyo."""
    settings = {"hudi.compaction.trigger": "time", "hudi.compaction.max-age": "10h"}
    table = hudi_table(tmp_path, hours(11, 10, 9), name)
    factory = HudiProcessFactory()
    factory.open({})

    local = factory.trigger(hudi_runtime(table, NOON, settings), Action("compaction"))
    in_utc(table)
    utc = factory.trigger(hudi_runtime(table, NOON, settings), Action("compaction"))

    assert isinstance(local, TableProcess), local
    assert isinstance(utc, Skip)
    assert utc.look_again == timedelta(hours=8)


def test_planning_by_age_without_effect_is_not_repeated_until_something_is_committed(tmp_path: Path) -> None:
    settings = {"hudi.compaction.trigger": "time", "hudi.compaction.max-age": "1h"}
    table = hudi_table(tmp_path, OLD)
    factory = HudiProcessFactory()
    factory.open({})
    first = factory.trigger(hudi_runtime(table, NOON, settings), Action("compaction"))
    assert isinstance(first, TableProcess)

    def again(later: timedelta) -> TableProcess | Skip:
        runtime = hudi_runtime(table, NOON + later, settings)
        runtime._operations = [operation(first, status=Status.SUCCEEDED)]
        return factory.trigger(runtime, Action("compaction"))

    idle = again(9 * DAY)
    assert isinstance(idle, Skip)
    assert idle.look_again is None
    commit_to(table, Instant("20991115120000000"))
    written = (NOON + 10 * DAY).timestamp()
    os.utime(next(timeline(table).glob("2099*")), (written, written))
    young = again(10 * DAY)
    assert isinstance(young, Skip)
    assert young.look_again == timedelta(hours=1)
    assert isinstance(again(11 * DAY), TableProcess)


def test_a_clean_that_would_find_only_retained_commits_waits_for_no_time(tmp_path: Path, sentences: Sentences) -> None:
    answer = CLEANING.decide(tmp_path, YOUNG, trigger="time", retain_commits="9")

    assert isinstance(answer, Skip)
    assert answer.look_again is None
    sentences.check("all commits are retained", answer.reason, commits=6, retained=9)


def test_one_commit_alone_is_not_clustered_by_its_age(tmp_path: Path, sentences: Sentences) -> None:
    answer = CLUSTERING.decide(tmp_path, hours(99), trigger="time")

    sentences.check("too few commits to cluster", answer.reason, commits=1, needed=2)


# Iceberg


def partitioned(**ages: tuple[float, ...]) -> MadeRuntime:
    """Partitions by name, each with a small file from so many hours ago for each age."""
    times = sorted({age for one in ages.values() for age in one}, reverse=True)
    commits = [commit(n, ago(hours=age), parent=n - 1 or None) for n, age in enumerate(times, 1)]
    files = [
        data(MB, partition=name, name=f"{name}-{age}")._replace(added_by=times.index(age) + 1)
        for name, found in ages.items()
        for age in found
    ]
    made = snapshot(files=files, commits=commits, partitioned=[("p", "identity")])
    return MadeRuntime(made, rewrite_data__trigger="num-or-time")


def admitted(runtime: MadeRuntime) -> TableProcess:
    factory = IcebergProcessFactory()
    wanted = factory.trigger(runtime, Action("rewrite-data"))
    assert isinstance(wanted, TableProcess), wanted
    answer = factory.admit(runtime, operation(wanted))
    assert isinstance(answer, TableProcess), answer
    return answer


def test_a_rewrite_by_age_takes_two_files_and_leaves_younger_partitions_alone() -> None:
    process = admitted(partitioned(old=(40, 30), young=(3, 2), lone=(50,), many=(5, 4, 3, 2, 1)))

    assert process.parameters["only"] == [[["p", "identity", "many"]], [["p", "identity", "old"]]]
    assert process.parameters["rewrite"]["min-input-files"] == "2"  # type: ignore[index, call-overload]


def test_a_rewrite_by_number_leaves_pairs_alone() -> None:
    process = admitted(partitioned(young=(3, 2), many=(5, 4, 3, 2, 1)))

    assert "only" not in process.parameters
    assert process.parameters["rewrite"]["min-input-files"] == "5"  # type: ignore[index, call-overload]


def test_a_request_takes_pairs_only_if_it_asks_for_them() -> None:
    asked = operation(TableProcess(action=Action("rewrite-data")), origin="api")

    answer = IcebergProcessFactory().admit(partitioned(old=(40, 30)), asked)

    assert isinstance(answer, TableProcess)
    assert answer.parameters["rewrite"]["min-input-files"] == "5"  # type: ignore[index, call-overload]


def test_files_whose_snapshots_have_expired_are_older_than_those_that_are_kept() -> None:
    files = [data(MB, name=f"{n}")._replace(added_by=n) for n in (1, 2)]
    tagged = commit(7, ago(days=900))
    kept = [tagged, commit(8, ago(hours=20), parent=5), commit(9, ago(hours=1), parent=8)]
    runtime = MadeRuntime(snapshot(files=files, commits=kept), rewrite_data__trigger="time")

    answer = IcebergProcessFactory().trigger(runtime, Action("rewrite-data"))

    assert isinstance(answer, Skip)
    assert answer.look_again == timedelta(hours=4)


def test_files_that_would_not_become_fewer_wait_for_no_time() -> None:
    files = [data(300 * MB, name=f"{n}")._replace(added_by=1) for n in range(3)]
    runtime = MadeRuntime(snapshot(files=files, commits=[commit(1, ago(days=9))]), rewrite_data__trigger="time")

    answer = IcebergProcessFactory().trigger(runtime, Action("rewrite-data"))

    assert isinstance(answer, Skip)
    assert answer.look_again is None


def test_a_table_without_position_deletes_waits_for_no_time() -> None:
    made = snapshot(files=[data(MB), deletes(vector=True)], commits=[commit(1, ago(days=9))], version=3)
    runtime = MadeRuntime(made, rewrite_position_deletes__trigger="time")

    answer = IcebergProcessFactory().trigger(runtime, Action("rewrite-position-deletes"))

    assert isinstance(answer, Skip)
    assert answer.look_again is None


# Delta


def test_an_optimize_by_age_takes_the_old_partitions_alone(tmp_path: Path) -> None:
    table = LogTable(tmp_path / "t")
    table.commit(metadata(partitions={"p": "string"}))
    ages = {"old": (40, 30), "young": (3, 2), "lone": (90,)}
    table.commit(
        *(add(f"{p}-{age}", MB, days_ago=age / 24, values={"p": p}) for p, found in ages.items() for age in found)
    )

    wanted = table.wanted("optimize", optimize__trigger="num-or-time")

    assert wanted.parameters["partitions"] == [[["p", "string", "old"]]]


# Paimon


def test_a_merge_by_age_is_a_full_one_and_minor_ones_go_by_number_alone(tmp_path: Path) -> None:
    made = HandMade(tmp_path / "t", primary_keys=["id"], options={"bucket": "1", "write-only": "true"})
    long_ago = NOON - 9 * DAY
    made.commit([File("bottom.parquet", size=900 * MB, level=5, created=long_ago)], at=long_ago)
    made.commit(small(1, created=long_ago), at=long_ago)

    wanted = paimon_harness(made.root, compact__trigger="time").wants("compact")
    minor = paimon_harness(made.root, compact__trigger="time", compact__strategy="minor").wants("compact")

    assert isinstance(wanted, TableProcess)
    assert wanted.parameters["strategy"] == "full"
    assert isinstance(minor, Skip)
    assert minor.look_again is None


def test_a_bucket_whose_runs_are_all_merged_has_no_old_change(tmp_path: Path) -> None:
    made = HandMade(tmp_path / "t", primary_keys=["id"], options={"bucket": "1", "write-only": "true"})
    long_ago = NOON - 9 * DAY
    made.commit([File("a", level=5, created=long_ago), File("b", level=4, created=long_ago)], at=long_ago)

    answer = paimon_harness(made.root, compact__trigger="time").wants("compact")

    assert isinstance(answer, Skip)
    assert answer.look_again is None


def test_packing_by_age_takes_two_files(tmp_path: Path) -> None:
    made = HandMade(tmp_path / "t")
    made.commit(small(2, created=NOON - 9 * DAY), at=NOON - 9 * DAY)
    service = paimon_harness(made.root, compact__trigger="time")
    wanted = service.wants("compact")
    assert isinstance(wanted, TableProcess)

    assert service.admitted(service.stored(wanted)).process.parameters["min_files"] == 2


def test_files_that_would_not_become_one_are_not_packed_by_their_age(tmp_path: Path) -> None:
    made = HandMade(tmp_path / "t")
    made.commit(small(2, size=170 * MB, created=NOON - 9 * DAY), at=NOON - 9 * DAY)

    answer = paimon_harness(made.root, compact__trigger="time").wants("compact")

    assert isinstance(answer, Skip)
    assert answer.look_again is None


# Lance


def test_a_large_fragment_is_not_dragged_along_because_few_rows_are_old(tmp_path: Path) -> None:
    path = lance_tables.make_table(tmp_path / "t", fragments=1, each=200_000)
    lance_tables.append(path, 200_000, 1)
    service = lance_harness(path, {"lance.compact.trigger": "time"})
    service.now = lambda: NOON + 3650 * DAY

    answer = service.wants("compact")

    assert isinstance(answer, Skip)
    assert answer.look_again is None


@pytest.mark.parametrize("trigger", ["time", "num-and-time"])
def test_a_person_waits_for_no_time(trigger: str, tmp_path: Path) -> None:
    path = lance_tables.make_table(tmp_path / "t", fragments=3)
    service = lance_harness(path, {**SMALL, "lance.compact.min-fragments": "3", "lance.compact.trigger": trigger})

    assert isinstance(service.wants("compact"), Skip)
    asked = service.admitted(service.asked("compact"))

    assert asked.process.reason.startswith("3 of 3 fragments"), "there is enough, and nobody speaks of an age"


@pytest.mark.parametrize(
    ("subject", "waits", "is_due"),
    [
        (REWRITE_DATA, "few small files of Iceberg wait", "old small files of Iceberg"),
        (REWRITE_DELETES, "few position deletes wait", "old position deletes"),
        (OPTIMIZE, "few small files of Delta wait", "old small files of Delta"),
        (PACK, "few small files of Paimon wait", "old small files of Paimon"),
        (MERGE, "few sorted runs wait", "old sorted runs"),
        (COMPACT, "few fragments wait", "old fragments"),
    ],
)
def test_the_reason_of_each_format_names_the_age(
    subject: Triggered, waits: str, is_due: str, tmp_path: Path, sentences: Sentences
) -> None:
    waiting = subject.decide(tmp_path, YOUNG, trigger="num-or-time")
    due = subject.decide(tmp_path, OLD, trigger="num-or-time")

    since = NOON - subject.age(YOUNG)
    found = {"oldest": f"{since:%Y-%m-%d %H:%M}", "due": f"{since + DAY:%Y-%m-%d %H:%M}"}
    sentences.check(waits, waiting.reason, **found)
    sentences.check(is_due, due.reason, oldest=f"{NOON - subject.age(OLD):%Y-%m-%d %H:%M}", age="1d")
