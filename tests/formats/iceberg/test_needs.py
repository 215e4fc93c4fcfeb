# SPDX-License-Identifier: Apache-2.0
"""What files need, in numbers: worth the work, and never the same work twice."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from lakehand.formats.iceberg.manifests import EQUALITY_DELETES, ContentFile, Manifest
from lakehand.formats.iceberg.needs import data_need, deletes_need, is_worth, manifests_need, outputs
from lakehand.formats.iceberg.settings import DataRules, DeleteRules, ManifestRules
from lakehand.spi import Skip
from lakehand.spi.kit import Need
from tests.formats.iceberg.made import KB, MB, data, deletes, snapshot

RULES = DataRules(target=512 * MB, min_files=5, delete_files=10, delete_ratio=0.3, max_files=1000, order={})
MERGED = DeleteRules(target=64 * MB, min_files=5, by_file=False)
BY_FILE = DeleteRules(target=64 * MB, min_files=5, by_file=True)


def need_of(*files: ContentFile, rules: DataRules = RULES, **parts: Any) -> Need | Skip:
    return data_need(snapshot(files=files, **parts), rules)


def is_needed(answer: Need | Skip) -> bool:
    return isinstance(answer, Need)


def test_many_small_files_in_one_partition_are_worth_a_rewrite() -> None:
    small = [data(12 * MB, name=f"s{n}") for n in range(87)]
    large = [data(500 * MB, name=f"l{n}") for n in range(13)]

    need = need_of(*small, *large)

    assert is_needed(need)
    assert need.reason.startswith("87 of 100 files are under 384 MB: 1.0 GB to rewrite, 87 files in 1 of 1 partitions")


def test_few_small_files_in_each_of_many_partitions_are_not() -> None:
    need = need_of(*[data(MB, partition=f"p{n}", name=f"{n}-{m}") for n in range(50) for m in range(4)])

    assert not is_needed(need)
    assert need.reason == "200 of 200 files are under 384 MB; at most 4 in one partition, 5 are worth it"


def test_files_of_an_older_partition_spec_count_together() -> None:
    old = [data(MB, name=f"{n}")._replace(group=(7, f"p{n}")) for n in range(5)]
    assert is_needed(need_of(*old))


@given(st.lists(st.integers(1, 383 * MB), min_size=1, max_size=200))
def test_the_output_of_a_rewrite_is_never_worth_another(sizes: list[int]) -> None:
    total = sum(sizes)
    count = outputs(total, RULES.target)
    written = [data(total // count, name=f"{n}") for n in range(count)]

    assert not is_worth(written, RULES.min_files, RULES.target)


def test_files_that_would_become_more_than_half_as_many_are_left_alone() -> None:
    assert not is_needed(need_of(*[data(300 * MB, name=f"{n}") for n in range(10)]))
    assert is_needed(need_of(*[data(200 * MB, name=f"{n}") for n in range(10)]))


def test_a_file_that_lost_many_rows_is_rewritten_alone() -> None:
    large = data(500 * MB, name="big", rows=1000)
    need = need_of(large, deletes(about="big", rows=300))

    assert is_needed(need)
    assert "1 have 10 delete files or 30% of their rows deleted" in need.reason
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
    assert is_needed(deletes_need(snapshot(files=files), MERGED))
    assert not is_needed(deletes_need(snapshot(files=files[:5]), MERGED))


def test_one_delete_file_for_each_data_file_cannot_become_fewer() -> None:
    files = [data(MB, name=f"{n}") for n in range(20)]
    own = [deletes(about=f"{n}") for n in range(20)]
    assert not is_needed(deletes_need(snapshot(files=[*files, *own]), BY_FILE))
    assert is_needed(deletes_need(snapshot(files=[*files, *own, *own]), BY_FILE)), "doubles can"
    dangling = deletes_need(snapshot(files=[*files[:5], *own]), BY_FILE)
    assert is_needed(dangling), "those about data files that are gone can"
    assert "15 of them dangling" in dangling.reason


def test_deletion_vectors_need_no_merging() -> None:
    need = deletes_need(snapshot(files=[deletes(vector=True) for _ in range(9)], version=3), BY_FILE)
    assert need.reason == "the table has no position delete files; its 9 deletion vectors need no merging"


def test_manifests_are_merged_when_they_become_half_as_many() -> None:
    rules = ManifestRules(target=8 * MB, min_manifests=25)
    small = [Manifest(f"m{n}", 9 * KB, 0, n % 5 == 0, 1) for n in range(25)]
    need = manifests_need(snapshot(manifests=small), rules)
    assert (is_needed(need), need.reason) == (True, "25 manifests of 225 KB in all, 2 would do")
    assert not is_needed(manifests_need(snapshot(manifests=small[:24]), rules))
    full = [Manifest(f"m{n}", 7 * MB, 0, False, 1) for n in range(40)]
    assert not is_needed(manifests_need(snapshot(manifests=full), rules))
    other = [manifest._replace(spec=3) for manifest in small]
    assert not is_needed(manifests_need(snapshot(manifests=other), rules))
