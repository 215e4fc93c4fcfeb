# SPDX-License-Identifier: Apache-2.0
"""Admission: what an engine is given, and how little a request can lower what is kept."""

from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from lakehand.spi import Drop, Failure, Invalid, Json, Remedy, TableProcess
from lakehand.testing.harness import PluginHarness
from tests import lance_tables
from tests.formats.lance.runtime import harness
from tests.kit.sentences import Sentences


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = lance_tables.make_table(tmp_path / "t", fragments=12)
    lance_tables.make_older(path, timedelta(days=20), up_to=9)
    return path


def test_a_compaction_gets_what_it_needs_and_no_secret(path: Path) -> None:
    subject = harness(path, plugin={"lance.storage.aws_secret_access_key": "hush"})
    wanted = subject.wants("compact")
    assert isinstance(wanted, TableProcess)
    operation = subject.admitted(subject.stored(wanted))

    parameters = dict(operation.process.parameters)
    assert parameters.pop("seen")
    assert parameters.pop("estimated_bytes") == sum(file.stat().st_size for file in (path / "data").iterdir())
    assert parameters.pop("boundary")
    [made] = [file.name for file in (path / "_transactions").iterdir() if file.name.startswith("11-")]
    assert parameters.pop("identity") == {"version": 12, "transaction": made}
    assert parameters == {
        "location": str(path), "operation_tag": operation.tag, "before": 12, "dry_run": False,
        "confirm": False, "target_rows": 300, "deleted_share": 0.1, "max_bytes": 64 * 1024**3, "is_indexed": False,
    }  # fmt: skip
    assert "hush" not in repr(operation)


def test_what_the_table_needs_no_more_is_dropped_and_what_a_person_asks_for_is_run(
    tmp_path: Path, sentences: Sentences
) -> None:
    path = lance_tables.make_table(tmp_path / "few", fragments=3)
    subject = harness(path)
    stored = subject.stored(TableProcess(action=subject.asked("compact").process.action))

    answer = subject.factory.admit(subject.runtime(), stored)

    assert isinstance(answer, Drop)
    sentences.check("no longer needed", answer.reason, mergeable=3, fragments=3)
    asked = subject.admitted(subject.asked("compact", options={"target-rows": 50}))
    assert asked.process.parameters["target_rows"] == 50
    sentences.check("a person asked for it", asked.process.reason, mergeable=3, fragments=3)


@pytest.mark.parametrize("action", ["compact", "clean-versions"])
def test_an_action_that_is_switched_off_is_not_run_for_anybody(path: Path, action: str, sentences: Sentences) -> None:
    subject = harness(path, {f"lance.{action}.enabled": "false"})

    answer = subject.factory.admit(subject.runtime(), subject.asked(action))

    assert isinstance(answer, Failure)
    assert (answer.reason, answer.remedy) == ("refused", Remedy.FATAL)
    sentences.check("the action is off", answer.message, key=f"lance.{action}.enabled", source="table")
    ours = subject.stored(TableProcess(action=subject.asked(action).process.action))
    assert subject.factory.admit(subject.runtime(), ours) == Drop(reason=answer.message)


@pytest.mark.parametrize(
    ("action", "parameters"),
    [
        ("clean-versions", {"options": {"delete_unverified": True}}),
        ("clean-versions", {"options": {"older_than": 0}}),
        ("clean-versions", {"options": {"max-age": "soon"}}),
        ("clean-versions", {"options": {"max-age": 86400}}),
        ("clean-versions", {"confirm": "yes"}),
        ("clean-versions", {"options": {"retain-versions": True}}),
        ("clean-versions", {"options": ["max-age"]}),
        ("compact", {"options": {"defer_index_remap": True}}),
        ("compact", {"options": {"target-rows": -5}}),
        ("compact", {"dry_run": True}),
    ],
)
def test_what_a_request_may_not_ask_for_is_refused_for_good(
    path: Path, action: str, parameters: dict[str, Json]
) -> None:
    subject = harness(path)

    answer = subject.factory.admit(subject.runtime(), subject.asked(action, **parameters))

    assert isinstance(answer, Failure)
    assert (answer.reason, answer.remedy) == ("refused", Remedy.FATAL)


@pytest.mark.parametrize(
    ("properties", "options", "plugin", "days"),
    [
        ({}, {}, {}, 14),
        ({"lance.clean-versions.max-age": "1s"}, {}, {}, 1),
        ({"lance.clean-versions.max-age": "1s"}, {"max-age": "1s"}, {}, 1),
        ({}, {"max-age": "1s"}, {}, 14),
        ({}, {"max-age": "30d"}, {}, 30),
        ({"lance.clean-versions.max-age": "1s"}, {}, {"lance.clean-versions.max-age-floor": "1s"}, 1),
        ({"lance.clean-versions.max-age": "1s"}, {}, {"lance.clean-versions.max-age-floor": "7d"}, 7),
        ({"lance.clean-versions.max-age-floor": "1s", "lance.clean-versions.max-age": "1s"}, {}, {}, 1),
    ],
)
def test_no_table_and_no_request_cleans_what_is_younger_than_the_floor(
    path: Path, properties: dict[str, str], options: dict[str, Json], plugin: dict[str, str], days: int
) -> None:
    subject = harness(path, properties, plugin=plugin)
    operation = subject.admitted(subject.asked("clean-versions", options=options))

    assert age_of(subject, operation.process.parameters["cutoff_ms"]) == pytest.approx(days, abs=0.01)


def test_a_request_can_only_retain_more_versions(path: Path) -> None:
    subject = harness(path, {"lance.clean-versions.retain-versions": "5"})

    kept = [
        subject.admitted(subject.asked("clean-versions", options={"retain-versions": n})).process.parameters
        for n in (0, 1, 5, 8)
    ]

    assert [one["retain_versions"] for one in kept] == [5, 5, 5, 8]


def test_a_dry_run_is_passed_on(path: Path) -> None:
    subject = harness(path)

    assert subject.admitted(subject.asked("clean-versions", dry_run=True)).process.parameters["dry_run"] is True
    assert subject.admitted(subject.asked("clean-versions")).process.parameters["dry_run"] is False


def test_a_floor_that_is_no_number_switches_the_plugin_off_with_a_reason(path: Path) -> None:
    with pytest.raises(Invalid, match="max-age-floor"):
        harness(path, plugin={"lance.clean-versions.max-age-floor": "a day"})


def age_of(subject: PluginHarness, cutoff_ms: Json) -> float:
    assert isinstance(cutoff_ms, int)
    return (subject.now() - datetime.fromtimestamp(cutoff_ms / 1000, timezone.utc)).total_seconds() / 86400
