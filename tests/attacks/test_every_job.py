# SPDX-License-Identifier: Apache-2.0
"""Each job of each format meets each attack with a session that fails the test when it is used: the guard is first.

Not seen without Spark, since the job asks Iceberg's own library first: tables below an Iceberg table. So are other
tables in the same folder (of Hudi, Iceberg and Delta), and names in the metadata: see ``test_FORMAT_paths.py``.
"""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from lakehand.formats.delta import DeltaProcessFactory
from lakehand.formats.hudi import HudiProcessFactory
from lakehand.formats.iceberg import IcebergProcessFactory
from lakehand.formats.lance import LanceProcessFactory
from lakehand.formats.paimon import PaimonProcessFactory
from lakehand.jobs import spark
from lakehand.jobs.boundary import OutsideTable
from lakehand.spi import ProcessFactory
from lakehand.testing.harness import boundary_parameter
from tests.attacks.attacks import ATTACKS, BY_LINK, LISTING, MARKERS, PLAIN, format_of
from tests.attacks.every_job import (
    JOBS,
    VARIANTS,
    SessionUsed,
    make_place,
    run,
    session_that_fails_when_used,
    work_for,
)
from tests.attacks.scene import FORMATS, nothing_changes

FACTORIES: tuple[Callable[[], ProcessFactory], ...] = (
    HudiProcessFactory,
    IcebergProcessFactory,
    DeltaProcessFactory,
    PaimonProcessFactory,
    LanceProcessFactory,
)
OPENED_FIRST = "iceberg-remove-orphans"  # asks Iceberg where the table's own metadata is
CASES = [
    (pair, name)
    for pair in JOBS
    for name, attack in ATTACKS.items()
    if attack.meets(pair) and not (attack.listing and pair == OPENED_FIRST)
]
Template = Callable[[str], Path]


def test_no_action_is_left_out() -> None:
    supported = {
        f"{of}-{action}"
        for factory in FACTORIES
        for of, actions in factory().supported_actions().items()
        for action in actions
    }
    assert supported == set(JOBS)
    assert supported > LISTING


@pytest.mark.parametrize(("pair", "attack"), CASES)
def test_a_job_is_stopped_before_it_uses_its_session(
    tmp_path: Path, small_table: Template, pair: str, attack: str
) -> None:
    tried = ATTACKS[attack]
    place = make_place(tmp_path, format_of(pair), small_table(format_of(pair)), tried.on[0])
    work = work_for(pair, place)
    tried.act(place)
    with nothing_changes(tmp_path):
        for variant in VARIANTS:
            with pytest.raises(OutsideTable, match=re.escape(tried.said.format(**vars(place)))):
                run(pair, {**work, **variant}, session_that_fails_when_used())


@pytest.mark.parametrize("how", [PLAIN, BY_LINK])
@pytest.mark.parametrize("pair", JOBS)
def test_without_an_attack_a_job_goes_on_to_its_table(
    tmp_path: Path, small_table: Template, pair: str, how: str
) -> None:
    """So that it is the attack that stops the others. Two jobs of Lance do their work without a session."""
    place = make_place(tmp_path, format_of(pair), small_table(format_of(pair)), how)
    work = work_for(pair, place)
    if pair in ("lance-optimize-indices", "lance-clean-versions"):
        assert run(pair, work, session_that_fails_when_used())
        return
    with pytest.raises(SessionUsed):
        run(pair, work, session_that_fails_when_used())


BUCKET = "s3a://lake/db/t"
# Lance lists a bucket by its own client, and Iceberg is asked for the table's own metadata first: see test_s3.py.
LISTED_BY_SPARK = sorted(pair for pair in LISTING if not pair.startswith(("iceberg", "lance")))


@pytest.mark.parametrize("pair", JOBS)
def test_work_without_a_whole_boundary_is_refused_before_the_session_is_used(
    tmp_path: Path, small_table: Template, pair: str
) -> None:
    place = make_place(tmp_path, format_of(pair), small_table(format_of(pair)), PLAIN)
    work = work_for(pair, place)
    known = work["boundary"]
    with nothing_changes(tmp_path):
        for wrong in (None, {}, {**known, "folder": ""}, {**known, "real": ""}, {**known, "warehouses": []}):
            with pytest.raises(OutsideTable, match=r"boundary|in no warehouse"):
                run(pair, {**work, "boundary": wrong}, session_that_fails_when_used())
        for warehouse in (f"{place.table}2", f"{place.table}/data", str(place.table)[:-1], "s3://lake"):
            with pytest.raises(OutsideTable, match=f"{place.table} is in no warehouse"):
                run(pair, {**work, "boundary": {**known, "warehouses": [warehouse]}}, session_that_fails_when_used())
        for warehouse in ("s3://lak", "s3://lake2", "s3://lake/db/t2", "gs://lake", "/lake"):
            there = {"location": BUCKET, "boundary": boundary_parameter(BUCKET, warehouses=[warehouse])}
            with pytest.raises(OutsideTable, match=f"{BUCKET} is in no warehouse"):
                run(pair, {**work, **there}, session_that_fails_when_used())


@pytest.mark.parametrize("inner", FORMATS)
@pytest.mark.parametrize("pair", LISTED_BY_SPARK)
def test_a_table_below_one_in_a_bucket_stops_what_lists_it(
    monkeypatch: pytest.MonkeyPatch, pair: str, inner: str
) -> None:
    """The listing of the bucket is given: the session is not asked for anything else."""
    names = ["part-0.parquet", f"deep/inner/{MARKERS[inner]}"]
    monkeypatch.setattr(spark, "files_below", lambda _, location: iter(names if location == BUCKET else ()))
    there = {"location": BUCKET, "boundary": boundary_parameter(BUCKET, warehouses=["s3://lake"]), "mode": "full"}
    with pytest.raises(OutsideTable, match=f"a {inner} table lies below this one, at {BUCKET}/deep/inner "):
        run(pair, {**JOBS[pair], **there}, session_that_fails_when_used())
