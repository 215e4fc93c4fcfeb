# SPDX-License-Identifier: Apache-2.0
"""The guard that all formats share meets each attack, however the table is registered; no Spark, and no job."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from lakehand.jobs.boundary import JobBoundary, OutsideTable, boundary_of
from lakehand.testing.harness import boundary_parameter
from tests.attacks.attacks import ATTACKS, BY_LINK, PLAIN, AttackedTable
from tests.attacks.every_job import make_place
from tests.attacks.scene import FORMATS

Template = Callable[[str], Path]
CASES = [(name, how) for name, attack in ATTACKS.items() for how in attack.on]


def admitted(top: Path, format: str, template: Path, how: str) -> tuple[AttackedTable, JobBoundary]:
    place = make_place(top / format, format, template, how)
    return place, boundary_of({"boundary": boundary_parameter(str(place.location))})


def check(boundary: JobBoundary, format: str) -> None:
    """As a job that lists folders does."""
    boundary.check()
    boundary.refuse_tables_below(format, boundary.files(None))


@pytest.mark.parametrize(("attack", "how"), CASES)
def test_an_attack_is_refused_by_the_name_of_what_is_wrong(
    tmp_path: Path, small_table: Template, attack: str, how: str
) -> None:
    tried = ATTACKS[attack]
    for own in (own for own in FORMATS if own != tried.but):
        place, boundary = admitted(tmp_path, own, small_table(own), how)
        tried.act(place)
        with pytest.raises(OutsideTable, match=re.escape(tried.said.format(**vars(place)))):
            check(boundary, own)


@pytest.mark.parametrize("how", [PLAIN, BY_LINK])
def test_a_table_without_an_attack_is_worked_on(tmp_path: Path, small_table: Template, how: str) -> None:
    for own in FORMATS:
        _, boundary = admitted(tmp_path, own, small_table(own), how)
        check(boundary, own)
