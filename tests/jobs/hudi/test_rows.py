# SPDX-License-Identifier: Apache-2.0
"""Which commits of others make two readings of a Hudi table incomparable; by a timeline that is only instants."""

import pytest

from lakehand.jobs.hudi.rows import NOTHING, HudiRows
from lakehand.jobs.job import Job
from lakehand.jobs.rows import NotComparable, Reading, Step


class Instants(HudiRows):
    def __init__(self, commits: str, cleans: str = "", **parameters: str) -> None:
        super().__init__(Job(session=None, parameters=dict(parameters)))  # type: ignore[arg-type]
        self.known = {"commits": commits.split(), "clean": cleans.split()}

    def _completed(self, kind: str) -> list[str]:
        return self.known[kind]


def reading(state: str, others: str = "") -> Reading:
    return Reading(state, 10, others=others)


def test_the_start_is_the_commit_before_the_plan() -> None:
    assert Instants("01 02 05 06", instant="04").newest() == "02"
    assert Instants("01 02 05 06").newest() == "06"
    assert Instants("").newest() is None


def test_each_completed_plan_is_compared_with_the_commit_before_it() -> None:
    table = Instants("01 02 03 05 06")

    assert table.steps({"instants": ["05", "03", "07"]}) == [Step("02", "03"), Step("03", "05")]
    assert Instants("04 06", instant="04").steps({}) == [Step(NOTHING, "04")]
    assert Instants("01 06", instant="04").steps({}) == []


def test_a_quiet_timeline_disturbs_nothing() -> None:
    Instants("01 02 04 06", cleans="03").check_others(reading("02", "clean-03"), reading("04", "clean-03 05"), {})


@pytest.mark.parametrize(("table", "before", "after", "why"), [
    (Instants("01 02 04", instant="04"), reading("02", "01"), reading("04"), "write 01 was completed"),
    (Instants("01 02 03 04", instant="04"), reading("02"), reading("04"), "write 03 was completed"),
    (Instants("01 02 04", instant="04"), reading("02"), reading("04", "clean-05"), "clean 05 ran"),
])  # fmt: skip
def test_what_others_completed_between_the_readings_makes_them_incomparable(
    table: Instants, before: Reading, after: Reading, why: str
) -> None:
    with pytest.raises(NotComparable, match=why):
        table.check_others(before, after, {})


def test_our_own_clean_and_an_archive_of_old_instants_disturb_nothing() -> None:
    table = Instants("06", cleans="05 07")

    table.check_others(reading("06", "clean-05"), reading("06", "clean-07"), {"instants": ["07"]})
