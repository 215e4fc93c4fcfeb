# SPDX-License-Identifier: Apache-2.0
"""Decisions and admission: pauses, floors, requests, and what may never run."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from lakehand.formats.iceberg import IcebergProcessFactory, expire_snapshots, remove_orphans, rewrite_data
from lakehand.formats.iceberg.manifests import Manifest
from lakehand.formats.iceberg.snapshot import IcebergSnapshot
from lakehand.spi import Action, Drop, Failure, Invalid, Json, Operation, Skip, Status, TableProcess
from tests.formats.iceberg.made import KB, NOON, MadeRuntime, ago, commit, deletes, key_of, line, small_table, snapshot
from tests.kit.sentences import Sentences

FACTORY = IcebergProcessFactory()
REWRITE, EXPIRE, ORPHANS = Action("rewrite-data"), Action("expire-snapshots"), Action("remove-orphans")
DELETES = Action("rewrite-position-deletes")
HOUR = 3_600_000


def operation(action: Action, *, origin: str = "coordinator", **parameters: Json) -> Operation:
    process = TableProcess(action=action, parameters=parameters, reason="because")
    return Operation(
        id=7, table=1, instant=f"20261115-{action}", process=process, origin=origin,  # type: ignore[arg-type]
        not_before=NOON, due_at=NOON, created_at=NOON, updated_at=NOON,
    )  # fmt: skip


def ended(action: Action, status: Status = Status.SUCCEEDED, *, hours: float, **result: Json) -> Operation:
    then = NOON - timedelta(hours=hours)
    return replace(operation(action), status=status, finished_at=then, result=result, reason="done")


def decide(table: IcebergSnapshot, action: Action, *operations: Operation, **properties: str) -> TableProcess | Skip:
    return FACTORY.trigger(MadeRuntime(table, operations, **properties), action)


def admit(table: IcebergSnapshot, request: Operation, **properties: str) -> Any:
    return FACTORY.admit(MadeRuntime(table, **properties), request)


def test_a_table_with_small_files_is_rewritten_and_the_reason_has_numbers(sentences: Sentences) -> None:
    answer = decide(small_table(), REWRITE)
    assert isinstance(answer, TableProcess)
    assert answer.job == "iceberg.rewrite_data"
    found = {"small": 10, "files": 10, "under": "384 MB", "size": "10.0 MB", "inputs": 10}
    sentences.check("small files", answer.reason, **found, partitions=1, all=1)


def test_a_switch_turns_an_action_off(sentences: Sentences) -> None:
    answer = decide(small_table(), REWRITE, rewrite_data__enabled="false")
    assert isinstance(answer, Skip)
    assert answer.look_again is None
    sentences.check("the action is off", answer.reason, key="iceberg.rewrite-data.enabled", source="table")


def test_a_table_of_a_version_to_come_is_left_alone(sentences: Sentences) -> None:
    answer = decide(snapshot(version=4), REWRITE)
    assert isinstance(answer, Skip)
    assert answer.look_again is None
    sentences.check("an unknown version", answer.reason, version=4, known=3)


def test_a_quiet_time_is_waited_for_if_one_is_set() -> None:
    busy = snapshot(files=small_table().files, commits=line(2, 1 / 48))
    assert isinstance(decide(busy, REWRITE), TableProcess)
    answer = decide(busy, REWRITE, quiet_period="1h")
    assert isinstance(answer, Skip)
    assert answer.look_again == timedelta(minutes=30)


def test_row_level_writers_have_time_between_two_rewrites_and_appenders_need_none() -> None:
    def table(kind: str) -> IcebergSnapshot:
        mine = {"lakehand_operation": "3-x", "operation": "replace"}
        commits = [commit(1, ago(hours=2), operation=kind), commit(2, ago(minutes=4), parent=1, **mine)]
        return snapshot(files=small_table().files, commits=commits)

    waiting = decide(table("overwrite"), REWRITE)
    assert isinstance(waiting, Skip)
    assert waiting.look_again == timedelta(minutes=6)
    assert isinstance(decide(table("append"), REWRITE), TableProcess)
    assert isinstance(decide(table("overwrite"), REWRITE, rest_period="0s"), TableProcess)
    assert isinstance(admit(table("overwrite"), operation(REWRITE)), Skip)
    assert isinstance(admit(table("overwrite"), operation(REWRITE, origin="api")), TableProcess)


@pytest.mark.parametrize("action", [REWRITE, DELETES])
def test_a_rewrite_of_manifests_does_not_put_off_a_rewrite_of_data(action: Action) -> None:
    """One every few minutes would put it off forever."""
    manifests = {
        "lakehand_operation": "4-x",
        "operation": "replace",
        "manifests_replaced": "30",
        "entries_processed": "900",
    }
    commits = [
        commit(1, ago(hours=1), operation="overwrite"),
        *(commit(number, ago(minutes=20 - number), parent=number - 1, **manifests) for number in range(2, 20)),
    ]
    busy = snapshot(files=[*small_table().files, *(deletes() for _ in range(10))], commits=commits)
    assert isinstance(decide(busy, action), TableProcess)
    assert isinstance(decide(busy, action, quiet_period="30m"), TableProcess), "our own commits are not writes either"

    data = commit(20, ago(minutes=4), parent=19, lakehand_operation="5-x", operation="replace", manifests_replaced="2")
    waiting = decide(snapshot(files=busy.files, commits=[*commits, data]), action)
    assert isinstance(waiting, Skip)
    assert (waiting.look_again, waiting.is_starved) == (timedelta(minutes=6), False)


def test_a_table_that_is_never_quiet_says_since_when(sentences: Sentences) -> None:
    """Commits every 4 minutes; the last pause was one of 20, four hours ago."""
    ages = [300, 290, 260, *range(240, 0, -4)]
    commits = [commit(number, ago(minutes=age), operation="append") for number, age in enumerate(ages, 1)]
    answers = {
        quiet: decide(snapshot(files=small_table().files, commits=commits), REWRITE, quiet_period=quiet)
        for quiet in ("4m", "10m", "1h")
    }
    found = {quiet: (one.look_again, one.is_starved) for quiet, one in answers.items() if isinstance(one, Skip)}
    assert found == {"10m": (timedelta(minutes=6), True), "1h": (timedelta(minutes=56), False)}
    starved = answers["10m"]
    assert isinstance(starved, Skip)
    sentences.check("never quiet", starved.reason, quiet="10 min", since="2026-11-15 08:00", key="iceberg.quiet-period")


def test_a_failure_is_followed_by_a_pause(sentences: Sentences) -> None:
    answer = decide(small_table(), REWRITE, ended(REWRITE, Status.FAILED, hours=0.1))
    assert isinstance(answer, Skip)
    sentences.check("a pause after a failure", answer.reason, operation=7, left="24 min")


def test_a_removal_of_orphans_is_due_once_in_a_while(sentences: Sentences) -> None:
    old = snapshot(commits=line(30, 1))
    assert isinstance(decide(old, ORPHANS), TableProcess)
    waiting = decide(old, ORPHANS, ended(ORPHANS, hours=10, changed=True))
    assert isinstance(waiting, Skip)
    assert waiting.look_again == timedelta(hours=158)
    sentences.check("orphans were removed not long ago", waiting.reason, operation=7)
    again = decide(old, ORPHANS, ended(ORPHANS, hours=170, changed=True))
    assert isinstance(again, TableProcess)
    sentences.check("orphans were removed long ago", again.reason, ago="170 h", commits=1)
    assert isinstance(
        decide(old, ORPHANS, ended(ORPHANS, hours=10, changed=True), remove_orphans__every="9h"), TableProcess
    )
    young = decide(snapshot(commits=line(2)), ORPHANS)
    assert isinstance(young, Skip)
    sentences.check("too young for orphans", young.reason, age="3d")


def test_a_dry_run_does_not_count_as_a_removal_of_orphans() -> None:
    dry = ended(ORPHANS, hours=1)
    dry = replace(dry, process=replace(dry.process, parameters={"dry_run": True}))
    assert isinstance(decide(snapshot(commits=line(30)), ORPHANS, dry), TableProcess)


def test_what_is_no_longer_needed_is_dropped_unless_a_person_asked_for_it(sentences: Sentences) -> None:
    healthy = snapshot(files=small_table().files[:2], commits=line(3))
    dropped = admit(healthy, operation(REWRITE))
    assert isinstance(dropped, Drop)
    sentences.check("no longer needed", dropped.reason, small=2, files=2, under="384 MB")
    assert isinstance(admit(healthy, operation(REWRITE, origin="api")), TableProcess)


def test_what_an_earlier_attempt_has_committed_is_not_dropped() -> None:
    request = operation(REWRITE)
    mine = commit(1, ago(hours=2), lakehand_operation=request.tag)
    assert isinstance(admit(snapshot(commits=[mine]), request), TableProcess)


def test_an_admitted_process_has_all_that_the_job_needs_and_can_be_admitted_again() -> None:
    request = operation(
        REWRITE, origin="api", options={"target-bytes": 1048576, "iceberg.rewrite-data.strategy": "sort"}
    )
    first = admit(small_table(), request)
    assert {key: first.parameters[key] for key in ("location", "catalog", "operation_tag", "before", "order")} == {
        "location": "/t", "catalog": "", "operation_tag": "7-20261115-rewrite-data", "before": 3, "order": {"sort": []},
    }  # fmt: skip
    assert first.parameters["rewrite"]["target-file-size-bytes"] == "1048576"
    assert "rewrite-all" not in first.parameters["rewrite"]
    assert admit(small_table(), replace(request, process=first)) == first


@pytest.mark.parametrize("action", [REWRITE, EXPIRE, ORPHANS])
def test_an_admitted_process_names_the_table_by_its_uuid(action: Action) -> None:
    table = small_table()
    known = replace(table, metadata={**table.metadata, "table-uuid": "abc"})
    assert admit(known, operation(action, origin="api")).parameters["identity"] == "abc"
    assert admit(table, operation(action, origin="api")).parameters["identity"] is None  # version 1 may have none


def test_rewriting_everything_is_for_requests_only() -> None:
    standing = dict.fromkeys(("rewrite_data__rewrite_all",), "true")
    assert "rewrite-all" not in admit(small_table(), operation(REWRITE), **standing).parameters["rewrite"]
    asked = admit(small_table(), operation(REWRITE, origin="api", options={"rewrite-all": True}))
    assert asked.parameters["rewrite"]["rewrite-all"] == "true"


@pytest.mark.parametrize(
    ("action", "parameters", "case", "named"),
    [
        (REWRITE, {"options": {"spark.jars": "x"}}, "no such option of rewrite-data", "spark.jars"),
        (REWRITE, {"options": {"strategy": "magic"}}, "no such strategy", "magic"),
        (REWRITE, {"options": {"strategy": "z-order", "z-order-columns": "a;b"}}, "no names of columns", "a;b"),
        (REWRITE, {"options": {"target-bytes": "big"}}, "no number of bytes", "big"),
        (REWRITE, {"dry_run": True}, "no dry run", "rewrite-data"),
        (EXPIRE, {"options": {"expire": [1]}}, "no such option of expire-snapshots", "expire"),
        (ORPHANS, {"options": {"location": "/etc"}}, "no such option of remove-orphans", "location"),
    ],
)
def test_a_request_that_makes_no_sense_fails_at_once(
    action: Action, parameters: Any, case: str, named: str, sentences: Sentences
) -> None:
    answer = admit(small_table(), operation(action, origin="api", **parameters))
    assert isinstance(answer, Failure)
    assert answer.reason == "refused"
    sentences.check(case, answer.message, named=named)


@pytest.mark.parametrize("asked", ["0s", "1s", "30m"])
def test_no_setting_and_no_request_goes_below_the_floors(asked: str) -> None:
    factory = IcebergProcessFactory()
    factory.open({f"{expire_snapshots.MAX_AGE.key}-floor": asked, f"{remove_orphans.OLDER_THAN.key}-floor": asked})
    options: dict[Action, dict[str, Json]] = {EXPIRE: {"max-age": asked}, ORPHANS: {"older-than": asked}}
    for action, hours in ((EXPIRE, 24), (ORPHANS, 72)):
        values = {"expire_snapshots__max_age": asked, "remove_orphans__older_than": asked}
        request = operation(action, origin="api", options=options[action])
        answer = factory.admit(MadeRuntime(snapshot(commits=line(30, 0.5)), **values), request)
        assert isinstance(answer, TableProcess)
        assert answer.parameters["older_than"] == ago(hours=hours)


def test_a_request_can_keep_more_than_the_table_does_and_not_less() -> None:
    table = snapshot(commits=line(30, 20, 10, 9, 3, 2, 1))

    def expired(options: dict[str, Json] | None = None) -> Json:
        request = operation(EXPIRE, origin="api", options=options or {})
        parameters: dict[str, Json] = admit(table, request, expire_snapshots__min_snapshots="2").parameters
        return parameters["expire"]

    assert expired() == [1, 2, 3, 4]
    assert expired({"max-age": "15d", "min-snapshots": 1}) == [1, 2]
    assert expired({"max-age": "24h", "min-snapshots": 6}) == [1]
    assert expired({"max-age": "1h", "min-snapshots": 1}) == [1, 2, 3, 4]


def test_flags_are_true_only_when_they_are_true() -> None:
    for flags in ({"confirm": "yes"}, {"dry_run": 1}):
        answer = admit(snapshot(commits=line(30)), operation(ORPHANS, origin="api", **flags))
        assert (type(answer), answer.reason) == (Failure, "refused")
    answer = admit(snapshot(commits=line(30)), operation(ORPHANS, origin="api"))
    assert (answer.parameters["confirm"], answer.parameters["dry_run"]) == (False, False)


def test_a_floor_that_is_no_number_is_refused(sentences: Sentences) -> None:
    key = f"{expire_snapshots.MAX_AGE.key}-floor"
    with pytest.raises(Invalid) as refused:
        IcebergProcessFactory().open({key: "a day"})
    sentences.check("no duration of the operator", str(refused.value), key=key, value="'a day'")


def sort_order(text: str) -> dict[str, Json]:
    runtime = MadeRuntime(snapshot(), rewrite_data__strategy="sort", rewrite_data__sort_order=text)
    return rewrite_data.order(IcebergProcessFactory().context(runtime, Action("rewrite-data")).values)


def test_sort_orders_are_read_as_people_write_them(sentences: Sentences) -> None:
    assert sort_order("a, b desc, c asc nulls last") == {
        "sort": [
            {"column": "a", "descending": False, "nulls_first": True},
            {"column": "b", "descending": True, "nulls_first": False},
            {"column": "c", "descending": False, "nulls_first": False},
        ]
    }
    with pytest.raises(Invalid) as refused:
        sort_order("a; drop")
    sentences.check("no order of columns", str(refused.value), order="a; drop")


def test_manifests_are_in_nobodys_way() -> None:
    mine = {"lakehand_operation": "3-x", "operation": "overwrite"}
    commits = [commit(1, ago(hours=2), operation="overwrite"), commit(2, ago(minutes=4), parent=1, **mine)]
    many = [Manifest(f"m{n}", KB, 0, False, 1) for n in range(30)]
    assert isinstance(decide(snapshot(commits=commits, manifests=many), Action("rewrite-manifests")), TableProcess)


def test_keys_of_tests_are_keys_of_settings() -> None:
    assert key_of("rewrite_data__target_bytes") == rewrite_data.TARGET.key
