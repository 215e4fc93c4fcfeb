# SPDX-License-Identifier: Apache-2.0
"""Verdicts from the metadata about a process, with and without a result; and what follows from a failure."""

from datetime import timedelta
from typing import Any

import pytest

from lakehand.formats.iceberg import IcebergProcessFactory
from lakehand.formats.iceberg.manifests import Manifest
from lakehand.spi import Action, EngineState, EngineStatus, Finding, Remedy, TableProcess
from tests.formats.iceberg.made import MadeRuntime, ago, branch, commit, line, snapshot, tag
from tests.formats.iceberg.test_decisions import operation
from tests.kit.sentences import Sentences

FACTORY = IcebergProcessFactory()
TAG = "7-x"
WRITTEN: dict[str, Any] = {
    "lakehand_operation": TAG,
    "operation": "replace",
    "added_data_files": "2",
    "deleted_data_files": "9",
    "removed_delete_files": "3",
    "removed_files_size": "1048576",
}


def verdict(action: str, parameters: dict[str, Any], result: dict[str, Any], **parts: Any) -> Any:
    process = TableProcess(action=Action(action), parameters={"operation_tag": TAG, **parameters})
    return FACTORY.verify(MadeRuntime(snapshot(**parts)), process, result)


def test_a_tag_is_the_effect_even_when_the_job_was_lost(sentences: Sentences) -> None:
    tagged = [*line(3, 2), commit(3, ago(days=1), parent=2, **WRITTEN)]
    found = verdict("rewrite-data", {"seen": {"files": 9}}, {}, commits=tagged)
    assert found.finding is Finding.DONE
    sentences.check("data files were rewritten", found.reason, before=9, after=2, snapshot=3)
    assert (found.numbers["changed"], found.numbers["before"]) == (True, {"files": 9})
    assert (found.numbers["files_removed"], found.numbers["bytes_rewritten"]) == (12, 1048576)


def test_a_tag_that_was_rolled_back_is_still_found() -> None:
    tagged = [commit(3, ago(days=1), **WRITTEN), *line(3, 2)]
    assert verdict("rewrite-data", {}, {}, commits=tagged).finding is Finding.DONE


@pytest.mark.parametrize("result", [{}, {"causes": ["x"]}, {"rewritten": 9}, {"already": True}])
def test_without_a_tag_nothing_was_committed_whatever_the_job_reports(result: dict[str, Any]) -> None:
    assert verdict("rewrite-data", {}, result, commits=line(3, 2)).finding is Finding.NOT_DONE


def test_a_snapshot_that_the_catalog_lists_no_longer_is_found_by_what_is_built_on_it(sentences: Sentences) -> None:
    """As in Nessie, which lists the newest alone, when a writer commits before we look."""
    newest = [commit(5, ago(days=1), parent=3)]
    kept = [Manifest("m1", 1024, 0, False, 1, added_by=2)]

    found = {
        one: verdict("rewrite-data", {}, {"snapshots": [one]}, commits=newest, manifests=kept) for one in (2, 3, 4)
    }

    assert [one.finding for one in found.values()] == [Finding.DONE, Finding.DONE, Finding.NOT_DONE]
    assert (found[2].numbers["committed"], found[2].numbers["changed"]) == ([2], True)
    sentences.check("built on a snapshot of the operation", found[3].reason, snapshot=3)


def test_without_a_tag_in_the_process_no_commit_is_taken_for_it() -> None:
    unstamped = [commit(1, ago(days=1), lakehand_operation="")]
    assert verdict("rewrite-data", {"operation_tag": ""}, {}, commits=unstamped).finding is Finding.NOT_DONE


def test_nothing_to_do_is_an_end_without_change() -> None:
    found = verdict("rewrite-manifests", {}, {"rewritten": 0}, commits=line(3))
    assert (found.finding, found.numbers["changed"]) == (Finding.DONE, False)


def test_an_expiry_is_done_when_its_snapshots_are_gone_or_held(sentences: Sentences) -> None:
    asked = {"expire": [11, 12, 1]}
    held = {"main": branch(3), "late": tag(1)}
    done = verdict("expire-snapshots", asked, {}, commits=line(9, 8, 7), refs=held)
    assert done.finding is Finding.DONE
    assert (done.numbers["expired"], done.numbers["changed"]) == (2, True)
    stuck = verdict("expire-snapshots", asked, {}, commits=line(9, 8, 7))
    assert stuck.finding is Finding.NOT_DONE
    sentences.check("snapshots are still there", stuck.reason, left=1, expired=3)
    assert verdict("expire-snapshots", asked, {"kept": [1]}, commits=line(9, 8, 7)).finding is Finding.DONE
    assert verdict("expire-snapshots", {"expire": []}, {}, commits=line(9)).numbers["changed"] is False


def test_a_removal_of_orphans_is_done_when_the_job_ended() -> None:
    assert verdict("remove-orphans", {}, {}, commits=line(9)).finding is Finding.NOT_DONE
    assert verdict("remove-orphans", {}, {"deleted_files": 0}, commits=line(9)).numbers["changed"] is False
    numbers = verdict("remove-orphans", {}, {"deleted_files": 3}, commits=line(9)).numbers
    assert (numbers["changed"], numbers["files_removed"]) == (True, 3)


def test_a_dry_run_changes_nothing() -> None:
    found = verdict("remove-orphans", {"dry_run": True}, {"would_delete_files": 3}, commits=line(9))
    assert (found.finding, found.numbers) == (Finding.DONE, {"changed": False})
    assert verdict("remove-orphans", {"dry_run": True}, {}, commits=line(9)).finding is Finding.NOT_DONE


def test_files_that_are_left_outside_are_reported_with_count_names_and_reason(sentences: Sentences) -> None:
    left = {"left_outside": 7, "left_outside_files": ["/a", "/b", "/c", "/d"], "left_outside_why": "not ours"}
    some = {"files": 7, "examples": "/a, /b, /c", "why": "not ours"}
    expired = verdict("expire-snapshots", {"expire": [11]}, {"deleted_files": 1, **left}, commits=line(9))
    assert expired.numbers["left_outside"] == 7
    sentences.check("files of expired snapshots were left", expired.reason, expired=1, left=1, **some)
    assert expired.numbers["files_removed"] == 1
    dry = verdict("expire-snapshots", {"dry_run": True}, {"would_delete_files": 3, **left}, commits=line(9))
    sentences.check("files would be left", dry.reason, deleted=3, **some)


FAILURES = [
    (
        "java.lang.RuntimeException",
        "Cannot commit rewrite because of a ValidationException or",
        "write-conflict",
        "retry",
    ),
    ("org.apache.iceberg.exceptions.ValidationException", "Deleted manifest x could not", "write-conflict", "retry"),
    ("org.apache.iceberg.exceptions.CommitFailedException", "Version 3 exists", "write-conflict", "retry"),
    ("org.apache.iceberg.exceptions.CommitStateUnknownException", "time-out", "commit-unknown", "not-yet"),
    ("org.apache.iceberg.exceptions.NoSuchTableException", "Table does not exist", "table-missing", "fatal"),
    ("lakehand.jobs.safety.UnsafeRequest", "nothing younger than 72 h", "refused", "fatal"),
    ("lakehand.jobs.safety.ImplausibleShare", "40 of 100 listed files", "implausible-share", "fatal"),
    ("lakehand.jobs.safety.BelowFloor", "nothing younger than 72 h", "refused", "fatal"),
    ("java.lang.ClassNotFoundException", "org.apache.hadoop.fs.s3a", "class-missing", "fatal"),
    ("java.lang.OutOfMemoryError", "Java heap space", "out-of-memory", "retry"),
    ("java.io.FileNotFoundException", "gone", "file-missing", "retry"),
    ("com.example.Surprise", "", "Surprise", "retry"),
]


@pytest.mark.parametrize(("kind", "message", "reason", "remedy"), FAILURES)
def test_failures_have_a_name_and_a_remedy(kind: str, message: str, reason: str, remedy: str) -> None:
    status = EngineStatus(state=EngineState.FAILED, error_class=kind, message=message)
    failure = FACTORY.classify(MadeRuntime(snapshot()), operation(Action("remove-orphans")), status)
    assert (failure.reason, str(failure.remedy)) == (reason, remedy)
    assert failure.message


def test_the_wait_after_a_conflict_grows() -> None:
    status = EngineStatus(state=EngineState.FAILED, error_class="x.CommitFailedException")
    waits = []
    for tries in (1, 2, 3, 9):
        attempt = operation(Action("rewrite-data"))
        object.__setattr__(attempt, "run_times", tries)
        failure = FACTORY.classify(MadeRuntime(snapshot()), attempt, status)
        assert failure.remedy is Remedy.RETRY
        waits.append(failure.delay)
    assert waits == [timedelta(minutes=minutes) for minutes in (1, 2, 4, 30)]


def test_the_message_about_a_confirmation_names_the_command(sentences: Sentences) -> None:
    status = EngineStatus(state=EngineState.FAILED, error_class="a.safety.ImplausibleShare", message="40 of 100")
    failure = FACTORY.classify(MadeRuntime(snapshot()), operation(Action("remove-orphans")), status)
    command = "`lakehand operations submit 1 remove-orphans --confirm`"
    sentences.check("a person must confirm it", failure.message, cause="40 of 100", command=command)
