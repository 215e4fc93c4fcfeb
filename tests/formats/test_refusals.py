# SPDX-License-Identifier: Apache-2.0
"""What a person asks for and cannot have is refused in one way: one code and one order of words in all formats."""

import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from lakehand.domain.operations import OperationId
from lakehand.domain.tables import TableId
from lakehand.formats.hudi import HudiProcessFactory
from lakehand.formats.iceberg import IcebergProcessFactory
from lakehand.spi import (
    Action,
    EngineState,
    EngineStatus,
    Failure,
    Instant,
    Json,
    Operation,
    ProcessFactory,
    Remedy,
    TableProcess,
    TableRuntime,
)
from tests import lance_tables
from tests.formats.classifying import NOON, failure_of
from tests.formats.delta.logs import MB, LogTable, adds, remove
from tests.formats.hudi.runtime import EVENTS_V9, FILE_LOCK, MemoryRuntime, copied, finish
from tests.formats.iceberg.made import MadeRuntime, line, snapshot
from tests.formats.lance.runtime import harness as lance_harness
from tests.formats.paimon.handmade import HandMade, small
from tests.formats.paimon.runtime import harness as paimon_harness
from tests.kit.sentences import Sentences

Subject = tuple[ProcessFactory, TableRuntime]


def delta(folder: Path, properties: Mapping[str, str]) -> Subject:
    table = LogTable(folder / "t", adds(3, MB), days_ago=40)
    table.commit(days_ago=40)
    table.checkpoint(days_ago=40)
    table.commit(remove("part-0.parquet", days_ago=20), days_ago=20)
    harness = table.harness(**{key.removeprefix("delta."): value for key, value in properties.items()})
    return harness.factory, harness.runtime()


def iceberg(folder: Path, properties: Mapping[str, str]) -> Subject:
    values = {key.removeprefix("iceberg.").replace(".", "__").replace("-", "_"): v for key, v in properties.items()}
    return IcebergProcessFactory(), MadeRuntime(snapshot(commits=line(30, 20)), **values)


def lance(folder: Path, properties: Mapping[str, str]) -> Subject:
    path = lance_tables.make_table(folder / "t", fragments=3)
    lance_tables.make_older(path, timedelta(days=20), up_to=2)
    harness = lance_harness(path, properties)
    return harness.factory, harness.runtime()


def paimon(folder: Path, properties: Mapping[str, str]) -> Subject:
    made = HandMade(folder / "t", options={"write-only": "true"})
    made.commit(small(9))
    harness = paimon_harness(made.root, **{key.removeprefix("paimon."): value for key, value in properties.items()})
    return harness.factory, harness.runtime()


def hudi(folder: Path, properties: Mapping[str, str]) -> Subject:
    table = copied("events_v9", folder)
    finish(table, EVENTS_V9, "replacecommit")
    return HudiProcessFactory(), MemoryRuntime(table, properties={**FILE_LOCK, **properties})


MAKE: dict[str, Callable[[Path, Mapping[str, str]], Subject]] = {
    "delta": delta, "iceberg": iceberg, "lance": lance, "paimon": paimon, "hudi": hudi,
}  # fmt: skip
# format, action, an option that keeps things, a value below its floor
DESTRUCTIVE = [
    ("delta", "vacuum", "retain", "1h"),
    ("delta", "clean-log", "retain", "1h"),
    ("iceberg", "expire-snapshots", "max-age", "1h"),
    ("iceberg", "remove-orphans", "older-than", "1h"),
    ("lance", "clean-versions", "max-age", "1h"),
    ("paimon", "expire-snapshots", "max-age", "1m"),
    ("paimon", "remove-orphans", "older-than", "1h"),
    ("paimon", "expire-tags", "grace", "1h"),
    ("hudi", "clean", "retain-commits", "1"),
]
WITHOUT_DRY_RUN = [
    ("delta", "optimize"), ("delta", "z-order"), ("delta", "purge"), ("delta", "checkpoint"),
    ("iceberg", "rewrite-data"), ("iceberg", "rewrite-position-deletes"), ("iceberg", "rewrite-manifests"),
    ("iceberg", "compute-statistics"), ("iceberg", "compute-partition-statistics"), ("lance", "compact"),
    ("lance", "optimize-indices"),
    ("paimon", "compact"), ("hudi", "compaction"), ("hudi", "clustering"), ("hudi", "clean"),
]  # fmt: skip


def request(action: str, **parameters: Json) -> Operation:
    """As the API stores it, without an instant: Hudi's is a request for a plan of our own."""
    process = TableProcess(action=Action(action), parameters={"mode": "plan-and-execute", **parameters})
    return Operation(
        id=OperationId(9), table=TableId(1), process=process, instant=Instant("20261115120000000-x"), origin="api",
        not_before=NOON, due_at=NOON, created_at=NOON, updated_at=NOON,
    )  # fmt: skip


def refusal(name: str, folder: Path, operation: Operation, **properties: str) -> str:
    factory, table = MAKE[name](folder, properties)
    answer = factory.admit(table, operation)
    assert isinstance(answer, Failure), answer
    assert (answer.reason, answer.remedy) == ("refused", Remedy.FATAL)
    return answer.message


@pytest.mark.parametrize(("name", "action", "option", "low"), DESTRUCTIVE)
def test_an_unknown_option_is_refused(
    name: str, action: str, option: str, low: str, tmp_path: Path, *, sentences: Sentences
) -> None:
    message = refusal(name, tmp_path, request(action, options={"no-such": "1"}))
    options = re.compile(r"[\w-]+(, [\w-]+)*$")
    sentences.check("no such option", message, action=action, option="'no-such'", options=options)
    assert option in message


@pytest.mark.parametrize(("name", "action", "option", "low"), DESTRUCTIVE)
def test_a_value_that_makes_no_sense_is_refused(
    name: str, action: str, option: str, low: str, tmp_path: Path, *, sentences: Sentences
) -> None:
    message = refusal(name, tmp_path, request(action, options={option: "soon"}))
    case = "no number in a request" if name == "hudi" else "no duration in a request"
    sentences.check(case, message, option=option, value="'soon'")


@pytest.mark.parametrize(("name", "action", "option", "low"), DESTRUCTIVE)
def test_an_action_that_is_off_is_refused(
    name: str, action: str, option: str, low: str, tmp_path: Path, *, sentences: Sentences
) -> None:
    key = f"hoodie.table.service.{action}.enable" if name == "hudi" else f"{name}.{action}.enabled"
    message = refusal(name, tmp_path, request(action), **{key: "false"})
    sentences.check("the action is off", message, key=key, source="table")


@pytest.mark.parametrize(("name", "action"), WITHOUT_DRY_RUN)
def test_a_dry_run_of_an_action_without_one_is_refused(
    name: str, action: str, tmp_path: Path, *, sentences: Sentences
) -> None:
    case = "no dry run in Hudi" if name == "hudi" else "no dry run"
    sentences.check(case, refusal(name, tmp_path, request(action, dry_run=True)), action=action)


@pytest.mark.parametrize(("name", "action", "option", "low"), DESTRUCTIVE)
def test_flags_are_true_or_false(
    name: str, action: str, option: str, low: str, tmp_path: Path, *, sentences: Sentences
) -> None:
    message = refusal(name, tmp_path, request(action, confirm="yes"))
    sentences.check("neither true nor false", message, flag="confirm", value="'yes'")


@pytest.mark.parametrize(("name", "action", "option", "low"), DESTRUCTIVE)
def test_a_request_below_the_floor_keeps_what_the_table_keeps(
    name: str, action: str, option: str, low: str, tmp_path: Path
) -> None:
    factory, table = MAKE[name](tmp_path, {})
    admitted: list[dict[str, Any]] = []
    for options in ({}, {option: low}):
        answer = factory.admit(table, request(action, options=options))
        assert isinstance(answer, TableProcess), answer
        admitted.append({**answer.parameters, "options": None})
    assert admitted[0] == admitted[1]


@pytest.mark.parametrize(("name", "action", "option", "low"), DESTRUCTIVE)
def test_a_job_that_finds_its_parameters_below_the_floor_is_refused(
    name: str, action: str, option: str, low: str, tmp_path: Path, *, sentences: Sentences
) -> None:
    factory, _ = MAKE[name](tmp_path, {})
    status = EngineStatus(state=EngineState.FAILED, error_class="lakehand.jobs.safety.BelowFloor", message="too young")
    failure = failure_of(factory, action, status)
    assert (failure.reason, failure.remedy) == ("refused", Remedy.FATAL)
    sentences.check("below the floor", failure.message, cause="too young")


@pytest.mark.parametrize(("name", "action", "option", "low"), DESTRUCTIVE)
def test_the_message_about_an_implausible_share_names_the_failure_and_then_the_remedy(
    name: str, action: str, option: str, low: str, tmp_path: Path, *, sentences: Sentences
) -> None:
    factory, _ = MAKE[name](tmp_path, {})
    status = EngineStatus(state=EngineState.FAILED, error_class="x.ImplausibleShare", message="40 of 100 files")
    failure = failure_of(factory, action, status)
    assert (failure.reason, failure.remedy) == ("implausible-share", Remedy.FATAL)
    command = f"`lakehand operations submit 1 {action} --confirm`"
    found = {"cause": "40 of 100 files", "dry_run": f"`lakehand operations submit 1 {action} --dry-run`"}
    sentences.check("a share that a person must confirm", failure.message, **found, command=command)


@pytest.mark.parametrize(
    ("name", "action", "old", "new"),
    [
        ("delta", "vacuum", "delta.vacuum.retain-hours", "delta.vacuum.retain"),
        ("iceberg", "expire-snapshots", "iceberg.expire-snapshots.max-age-hours", "iceberg.expire-snapshots.max-age"),
        ("iceberg", "remove-orphans", "iceberg.remove-orphans.older-than-hours", "iceberg.remove-orphans.older-than"),
        ("iceberg", "rewrite-data", "iceberg.rest-seconds", "iceberg.rest-period"),
        ("paimon", "remove-orphans", "paimon.remove-orphans.min-age", "paimon.remove-orphans.older-than"),
    ],
)
def test_a_key_that_lost_its_unit_names_the_new_one(
    name: str, action: str, old: str, new: str, tmp_path: Path, *, sentences: Sentences
) -> None:
    message = refusal(name, tmp_path, request(action), **{old: "200"})
    sentences.check("a key that lost its unit", message, old=old, source="table", new=new)
