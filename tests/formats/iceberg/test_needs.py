# SPDX-License-Identifier: Apache-2.0
"""What files need, in numbers: worth the work, and never the same work twice."""

from collections.abc import Sequence
from datetime import date, datetime, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehand.formats.iceberg import IcebergProcessFactory, rewrite_data, rewrite_manifests, rewrite_position_deletes
from lakehand.formats.iceberg.context import IcebergContext
from lakehand.formats.iceberg.manifests import EQUALITY_DELETES, ContentFile, Manifest
from lakehand.formats.iceberg.rewrite_data import PartitionNames
from lakehand.formats.iceberg.rewrites import is_worth, outputs
from lakehand.formats.iceberg.snapshot import TARGET_BYTES, IcebergSnapshot
from lakehand.spi import Action, Skip
from lakehand.spi.kit import NamedPartitions, Need
from tests.formats.iceberg.made import KB, MB, MadeRuntime, data, deletes, snapshot
from tests.kit.sentences import Sentences

MERGED = {"write.delete.granularity": "partition"}
BY_FILE = {"write.delete.granularity": "file"}


def context(made: IcebergSnapshot, action: str) -> IcebergContext:
    return IcebergProcessFactory().context(MadeRuntime(made), Action(action))


def need_of(*files: ContentFile) -> Need | Skip:
    return rewrite_data.decide(context(snapshot(files=files), "rewrite-data"))


def deletes_need(properties: dict[str, str], *files: ContentFile, version: int = 2) -> Need | Skip:
    made = snapshot(files=files, properties=properties, version=version)
    return rewrite_position_deletes.decide(context(made, "rewrite-position-deletes"))


def manifests_need(*manifests: Manifest) -> Need | Skip:
    return rewrite_manifests.decide(context(snapshot(manifests=manifests), "rewrite-manifests"))


def is_needed(answer: Need | Skip) -> bool:
    return isinstance(answer, Need)


def test_many_small_files_in_one_partition_are_worth_a_rewrite(sentences: Sentences) -> None:
    small = [data(12 * MB, name=f"s{n}") for n in range(87)]
    large = [data(500 * MB, name=f"l{n}") for n in range(13)]

    need = need_of(*small, *large)

    assert is_needed(need)
    found = {"small": 87, "files": 100, "under": "384 MB", "size": "1.0 GB", "inputs": 87}
    sentences.check("small files", need.reason, **found, partitions=1, all=1)


def test_few_small_files_in_each_of_many_partitions_are_not(sentences: Sentences) -> None:
    need = need_of(*[data(MB, partition=f"p{n}", name=f"{n}-{m}") for n in range(50) for m in range(4)])

    assert not is_needed(need)
    found = {"small": 200, "files": 200, "under": "384 MB", "most": 4, "needed": 5}
    sentences.check("few small files in each partition", need.reason, **found)


def test_files_of_an_older_partition_spec_count_together() -> None:
    old = [data(MB, name=f"{n}")._replace(group=(7, f"p{n}")) for n in range(5)]
    assert is_needed(need_of(*old))


@given(st.lists(st.integers(1, 383 * MB), min_size=1, max_size=200))
def test_the_output_of_a_rewrite_is_never_worth_another(sizes: list[int]) -> None:
    total = sum(sizes)
    count = outputs(total, TARGET_BYTES)
    written = [data(total // count, name=f"{n}") for n in range(count)]

    assert not is_worth(written, rewrite_data.MIN_INPUT_FILES.default or 0, TARGET_BYTES)


def test_files_that_would_become_more_than_half_as_many_are_left_alone() -> None:
    assert not is_needed(need_of(*[data(300 * MB, name=f"{n}") for n in range(10)]))
    assert is_needed(need_of(*[data(200 * MB, name=f"{n}") for n in range(10)]))


def test_a_file_that_lost_many_rows_is_rewritten_alone(sentences: Sentences) -> None:
    large = data(500 * MB, name="big", rows=1000)
    need = need_of(large, deletes(about="big", rows=300))

    assert is_needed(need)
    sentences.check("files with many deleted rows", need.reason, files=1, deletes=10, share="30%")
    assert not is_needed(need_of(large, deletes(about="big", rows=299)))


def test_deletes_of_a_partition_count_for_older_files_only() -> None:
    shared = [deletes(sequence=sequence) for sequence in range(5, 15)]
    old, new, elsewhere = data(500 * MB, sequence=5), data(500 * MB, sequence=6), data(500 * MB, partition="b")

    assert is_needed(need_of(old, *shared))
    assert not is_needed(need_of(new, *shared))
    assert not is_needed(need_of(elsewhere, *shared))


def test_equality_deletes_count_for_files_that_were_there_before_them() -> None:
    equality = [d._replace(content=EQUALITY_DELETES) for d in (deletes(sequence=s) for s in range(5, 15))]
    of_all = [file._replace(group=(3,)) for file in equality]

    assert is_needed(need_of(data(500 * MB, sequence=4), *equality))
    assert not is_needed(need_of(data(500 * MB, sequence=5), *equality))
    assert is_needed(need_of(data(500 * MB, sequence=4, partition="b"), *of_all))


def test_position_deletes_are_merged_when_they_become_half_as_many() -> None:
    files = [data(MB, name="a"), *[deletes(about=None) for _ in range(6)]]
    assert is_needed(deletes_need(MERGED, *files))
    assert not is_needed(deletes_need(MERGED, *files[:5]))


def test_one_delete_file_for_each_data_file_cannot_become_fewer(sentences: Sentences) -> None:
    files = [data(MB, name=f"{n}") for n in range(20)]
    own = [deletes(about=f"{n}") for n in range(20)]
    assert not is_needed(deletes_need(BY_FILE, *files, *own))
    assert is_needed(deletes_need(BY_FILE, *files, *own, *own)), "doubles can"
    dangling = deletes_need(BY_FILE, *files[:5], *own)
    assert is_needed(dangling), "those about data files that are gone can"
    found = {"deletes": 20, "files": 5, "dangling": 15}
    sentences.check("many position deletes", dangling.reason, **found)


def test_deletion_vectors_need_no_merging(sentences: Sentences) -> None:
    need = deletes_need(BY_FILE, *[deletes(vector=True) for _ in range(9)], version=3)
    sentences.check("deletion vectors alone", need.reason, vectors=9)


def test_manifests_are_merged_when_they_become_half_as_many(sentences: Sentences) -> None:
    small = [Manifest(f"m{n}", 9 * KB, 0, n % 5 == 0, 1) for n in range(25)]
    need = manifests_need(*small)
    assert is_needed(need)
    sentences.check("many manifests", need.reason, manifests=25, size="225 KB", enough=2)
    assert not is_needed(manifests_need(*small[:24]))
    full = [Manifest(f"m{n}", 7 * MB, 0, False, 1) for n in range(40)]
    assert not is_needed(manifests_need(*full))
    other = [manifest._replace(spec=3) for manifest in small]
    assert not is_needed(manifests_need(*other))


def bounded(changed: Sequence[str], *files: ContentFile, **more: Any) -> Need:
    """What is needed where one run may rewrite 32 files."""
    runtime = MadeRuntime(snapshot(files=files, **more), (), changed, rewrite_data__max_files="32")
    need = rewrite_data.decide(IcebergProcessFactory().context(runtime, Action("rewrite-data")))
    assert isinstance(need, Need)
    return need


def days(**counts: int) -> list[ContentFile]:
    return [data(MB, partition=day, name=f"{day}-{n}") for day, count in counts.items() for n in range(count)]


BY_DAY = {"partitioned": [("day", "identity")]}


def test_a_bounded_run_begins_with_the_partitions_that_events_named(sentences: Sentences) -> None:
    files = days(a=20, b=18, c=6, d=5)

    plain = bounded([], *files, **BY_DAY)
    first = bounded(["day=c", "day=d", "day=never", "odd"], *files, **BY_DAY)

    assert plain.parameters == {}
    assert first.parameters["only"] == [
        [["day", "identity", "c"]],
        [["day", "identity", "d"]],
        [["day", "identity", "a"]],
    ]
    added = first.reason.removeprefix(plain.reason)
    sentences.check("added where events named partitions", added, partitions=4, now=3, named=2)


def test_a_run_that_takes_all_partitions_is_not_narrowed() -> None:
    files = days(a=10, b=10)
    need = bounded(["day=a"], *files, **BY_DAY)
    assert "only" not in need.parameters
    assert need.reason == bounded([], *files, **BY_DAY).reason


def test_a_hint_about_other_partitions_changes_nothing() -> None:
    files = days(a=20, b=18)
    need = bounded(["day=x", "other=a"], *files, **BY_DAY)
    assert "only" not in need.parameters
    assert need.reason == bounded([], *files, **BY_DAY).reason


def test_files_of_an_older_partition_spec_are_not_left_out_by_a_hint() -> None:
    old = [file._replace(group=(7, "a")) for file in days(old=12)]
    assert "only" not in bounded(["day=a"], *days(a=20, b=18), *old, **BY_DAY).parameters


@pytest.mark.parametrize(
    ("transform", "value", "name", "literal"),
    [
        ("identity", "x y/z", "c=x y%2Fz", "x y/z"),
        ("identity", 7, "c=7", 7),
        ("identity", True, "c=true", True),
        ("identity", None, "c=null", None),
        ("identity", date(2026, 11, 15), "c=2026-11-15", "2026-11-15"),
        ("day", date(2026, 11, 15), "c_day=2026-11-15", "2026-11-15"),
        ("day", 20772, "c_day=2026-11-15", 20772),
        ("month", 682, "c_month=2026-11", 682),
        ("year", 56, "c_year=2026", 56),
        ("hour", 498541, "c_hour=2026-11-15-13", 498541),
        ("bucket[16]", 3, "c_bucket=3", 3),
        ("truncate[2]", "ab", "c_truncate=ab", "ab"),
    ],
)
def test_partitions_are_named_as_iceberg_shows_them(transform: str, value: Any, name: str, literal: Any) -> None:
    names = PartitionNames(snapshot(partitioned=[("c", transform)]))
    assert NamedPartitions([name]).hold(names.values((0, value)))
    assert names.condition((0, value)) == [["c", transform, literal]]


@pytest.mark.parametrize(
    ("transform", "value"),
    [("identity", datetime(2026, 11, 15, tzinfo=timezone.utc)), ("identity", b"x"), ("void", None)],
)
def test_a_partition_that_has_no_plain_name_is_not_named(transform: str, value: Any) -> None:
    names = PartitionNames(snapshot(partitioned=[("c", transform)]))
    assert (dict(names.values((0, value))), names.condition((0, value))) == ({}, None)
