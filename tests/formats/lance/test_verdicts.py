# SPDX-License-Identifier: Apache-2.0
"""Verdicts from the table about work on it, with and without the result of the job."""

import shutil
from datetime import timedelta
from pathlib import Path

import lance
from lance.optimize import Compaction

from lakehand.formats.lance.compact import TAG, rewrites_since
from lakehand.jobs.lance.commits import TAG as WRITTEN
from lakehand.jobs.lance.commits import commit, options_for
from lakehand.spi import Finding, Operation
from lakehand.testing.harness import PluginHarness
from tests import lance_tables
from tests.formats.lance.runtime import harness
from tests.kit.sentences import TIME, Sentences


def wanted(subject: PluginHarness, action: str = "compact") -> Operation:
    return subject.admitted(subject.asked(action))


def rewrite_as(path: Path, tag: str) -> int:
    dataset = lance.dataset(str(path))
    options = options_for(dataset, 300, 0.1)
    results = [task.execute(dataset) for task in Compaction.plan(dataset, options).tasks]  # type: ignore[arg-type]
    return commit(dataset, results, options=options, tag=tag).version


def test_the_tag_is_read_under_the_name_that_it_is_written_with() -> None:
    assert TAG == WRITTEN


def test_a_rewrite_with_our_tag_is_done_whatever_came_after_and_without_any_result(
    tmp_path: Path, sentences: Sentences
) -> None:
    path = lance_tables.make_table(tmp_path / "t", fragments=12)
    subject = harness(path)
    operation = wanted(subject)
    lance_tables.append(path, 5000)
    version = rewrite_as(path, operation.tag)
    lance_tables.append(path, 6000)

    verdict = subject.verdict(operation, {})

    assert verdict.finding is Finding.DONE
    sentences.check("fragments were merged", verdict.reason, before=13, after=1, version=14, now=2)
    assert (verdict.numbers["changed"], verdict.numbers["version"]) == (True, version)
    assert (verdict.numbers["fragments_before"], verdict.numbers["fragments_after"]) == (12, 2)
    assert verdict.numbers["files_removed"] == 13
    assert subject.verdict(operation, {"version": version, "files_removed": 26}).numbers["files_removed"] == 26


def test_a_rewrite_of_somebody_else_is_not_ours(tmp_path: Path, sentences: Sentences) -> None:
    path = lance_tables.make_table(tmp_path / "t", fragments=12)
    subject = harness(path)
    operation = wanted(subject)
    rewrite_as(path, "another-operation")
    lance_tables.append(path, 5000)
    lance.dataset(str(path)).optimize.compact_files()

    verdict = subject.verdict(operation, {"causes": ["OSError"]})

    assert verdict.finding is Finding.NOT_DONE
    sentences.check("no rewrite of ours", verdict.reason, first=13, last=16, others=2)


def test_a_rewrite_that_remapped_indices_counts_although_its_author_is_unknown(
    tmp_path: Path, sentences: Sentences
) -> None:
    path = lance_tables.make_table(tmp_path / "t", fragments=12)
    lance.dataset(str(path)).create_scalar_index("id", "BTREE")
    subject = harness(path)
    operation = wanted(subject)
    assert subject.verdict(operation, {}).finding is Finding.NOT_DONE
    version = rewrite_as(path, operation.tag)

    assert [one.version for one in rewrites_since(lance.dataset(str(path)), 13)] == [version]
    unknown = subject.verdict(operation, {})
    sentences.check("the author of a rewrite is not recorded", unknown.reason, version=version)
    reported = subject.verdict(operation, {"version": version, "tasks": 1})
    assert reported.finding is Finding.DONE
    sentences.check("the rewrite that the job reported", reported.reason, version=version, now=1)


def test_a_job_that_reports_done_is_not_believed_without_a_rewrite(tmp_path: Path) -> None:
    path = lance_tables.make_table(tmp_path / "t", fragments=12)
    subject = harness(path)
    operation = wanted(subject)
    lance_tables.append(path, 5000)

    assert subject.verdict(operation, {"version": 13, "tasks": 1}).finding is Finding.NOT_DONE


def test_nothing_to_do_is_done_and_changed_nothing(tmp_path: Path) -> None:
    path = lance_tables.make_table(tmp_path / "t", fragments=1)
    subject = harness(path)

    verdict = subject.verdict(wanted(subject), {"tasks": 0, "read_version": 1})

    assert (verdict.finding, verdict.numbers["changed"]) == (Finding.DONE, False)


def test_a_recreated_table_has_lost_the_work(tmp_path: Path, sentences: Sentences) -> None:
    path = lance_tables.make_table(tmp_path / "t", fragments=12)
    subject = harness(path)
    operation = wanted(subject)
    shutil.rmtree(path)
    assert subject.verdict(operation, {}).finding is Finding.GONE
    lance_tables.make_table(path, fragments=2)

    sentences.check("the table was made anew", subject.verdict(operation, {}).reason, seen=12, latest=2)


def test_a_cleaning_is_done_when_no_old_version_is_left(tmp_path: Path, sentences: Sentences) -> None:
    path = lance_tables.make_table(tmp_path / "t", fragments=12)
    lance_tables.make_older(path, timedelta(days=20), up_to=9)
    subject = harness(path)
    operation = wanted(subject, "clean-versions")
    left = subject.verdict(operation, {})
    assert left.finding is Finding.NOT_DONE
    sentences.check("old versions are left", left.reason, left=9, expired=9, than=TIME)
    lance.dataset(str(path)).cleanup_old_versions(older_than=timedelta(days=14))

    verdict = subject.verdict(operation, {})

    assert subject.verdict(operation, {"files_removed": 9}).numbers["files_removed"] == 9
    assert "files_removed" not in verdict.numbers
    assert (verdict.finding, verdict.numbers["changed"]) == (Finding.DONE, True)
    assert (verdict.numbers["expired_before"], verdict.numbers["expired_after"]) == (9, 0)


def test_a_dry_run_without_a_list_is_not_done(tmp_path: Path) -> None:
    path = lance_tables.make_table(tmp_path / "t", fragments=1)
    subject = harness(path)
    operation = subject.admitted(subject.asked("clean-versions", dry_run=True))

    assert subject.verdict(operation, {}).finding is Finding.NOT_DONE
    listed = subject.verdict(operation, {"would_delete_files": 0, "would_delete_versions": 0})
    assert (listed.finding, listed.numbers["changed"]) == (Finding.DONE, False)
