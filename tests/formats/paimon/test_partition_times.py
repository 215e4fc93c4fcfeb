# SPDX-License-Identifier: Apache-2.0
"""The time of a partition: its values out of real binary rows, read by Paimon's rule, and never guessed."""

from datetime import datetime, timezone

import pytest

from lakehand.formats.paimon.expire_partitions import NoTime, TimeRule, values_of
from tests.formats.paimon.handmade import partition_of

# Out of manifests that Paimon 0.9 wrote.
REAL = {
    "0000000100000000000000000a00000010000000323032362d31312d3136000000000000": (["STRING"], ["2026-11-16"]),
    "0000000100000000000000006f74686572000085": (["STRING NOT NULL"], ["other"]),
    "0000000200000000000000000525350100000000110000001800000061206c6f6e672076616c7565206f66207000000000000000": (
        ["INT", "STRING"],
        ["20260101", "a long value of p"],
    ),
    "0000000100000000000000002551000000000000": (["DATE"], ["20773"]),
}


@pytest.mark.parametrize("row", REAL)
def test_values_come_out_of_the_rows_that_paimon_writes(row: str) -> None:
    types, values = REAL[row]
    assert values_of(bytes.fromhex(row), types) == values


@pytest.mark.parametrize(
    ("values", "types"), [(("2026-11-16", 5), ["STRING", "BIGINT"]), ((-7, "ü"), ["INT", "CHAR(3)"])]
)
def test_rows_of_tests_are_like_real_ones(values: tuple[str | int, ...], types: list[str]) -> None:
    assert partition_of("2026-11-16").hex() == next(iter(REAL))
    assert values_of(partition_of(*values), types) == [str(value) for value in values]


@pytest.mark.parametrize(
    ("row", "types"),
    [
        (partition_of(None), ["STRING"]),
        (partition_of("a", None), ["STRING", "INT"]),
        (partition_of("2026-11-16"), ["BOOLEAN"]),
        (partition_of("2026-11-16"), ["STRING", "STRING"]),
        (partition_of("2026-11-16")[:-8], ["STRING"]),
        (partition_of("2026-11-16")[:10], ["STRING"]),
        (b"", ["STRING"]),
    ],
)
def test_what_is_null_cut_short_or_of_another_type_has_no_values(row: bytes, types: list[str]) -> None:
    with pytest.raises(NoTime):
        values_of(row, types)


DAY, HOUR = datetime(2026, 1, 5, tzinfo=timezone.utc), datetime(2026, 1, 5, 7, tzinfo=timezone.utc)
RULES = {
    ("", "", ("2026-01-05",)): DAY,
    ("", "", ("2026-1-5",)): DAY,
    ("", "", ("2026-01-05 07:00:00",)): HOUR,
    ("", "", ("2026-01-05 7:0:0.5", "x")): HOUR,
    ("yyyyMMdd", "", ("20260105",)): DAY,
    ("yyyy/MM/dd'T'HH", "", ("2026/01/05T07",)): HOUR,
    ("yyyyMMdd HH", "$a $b", ("20260105", "07")): HOUR,
    ("", "$a $b:00:00", ("2026-01-05", "7")): HOUR,
    ("", "2026-$a-$b", ("01", "05")): DAY,
}


@pytest.mark.parametrize("case", RULES)
def test_a_time_is_read_as_paimon_reads_it(case: tuple[str, str, tuple[str, ...]]) -> None:
    formatter, pattern, values = case
    rule = TimeRule(columns=("a", "b")[: len(values)], formatter=formatter, pattern=pattern)
    assert rule.time_of(values) == RULES[case]


@pytest.mark.parametrize(
    ("formatter", "pattern", "value"),
    [
        ("", "", "other"),
        ("", "", ""),
        ("", "", "20260105"),
        ("", "", "2026-02-30"),
        ("", "", "2026-13-01"),
        ("", "", "12026-01-01"),
        ("", "", "2026-01-05 07:00"),
        ("", "", "２０２６-01-05"),
        ("", "", "2026-01-05\n"),
        ("", "$a", "$a"),
        ("", "$c", "2026-01-05"),
        ("yyyyMMdd", "", "2026-01-05"),
        ("yyyyMM", "", "202601"),
        ("yyyy-MM-dd'", "", "2026-01-05"),
        ("yyyy-MM-dd[ HH]", "", "2026-01-05"),
        ("EEE yyyy-MM-dd", "", "Mon 2026-01-05"),
        ("yyyy-MM-dd MM", "", "2026-01-05 01"),
        ("yy-MM-dd", "", "26-01-05"),
        ("(?P<x>.*)", "", "2026-01-05"),
    ],
)
def test_what_names_no_time_for_sure_has_none(formatter: str, pattern: str, value: str) -> None:
    with pytest.raises(NoTime):
        TimeRule(columns=("a",), formatter=formatter, pattern=pattern).time_of([value])
