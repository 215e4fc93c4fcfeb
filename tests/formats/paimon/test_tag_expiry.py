# SPDX-License-Identifier: Apache-2.0
"""Which tags are deleted: those past a time of their own, automatic ones by a set number, and never a person's."""

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakehand.formats.paimon.expire_tags import end_of
from lakehand.spi import Finding, Operation
from lakehand.testing import PluginHarness
from tests.formats.paimon.handmade import NOON, HandMade, small
from tests.formats.paimon.runtime import harness, skipped, wanted
from tests.kit.sentences import Sentences

ACTION = "expire-tags"
DAY = timedelta(days=1)
AUTOMATIC = {"write-only": "true", "tag.automatic-creation": "process-time"}


def table(folder: Path, *, snapshots: int = 12, options: dict[str, str] | None = None) -> HandMade:
    made = HandMade(folder / "t", options=options or {"write-only": "true"})
    for number in range(snapshots):
        made.commit(small(1, prefix=f"d{number}"), at=NOON - 40 * DAY + number * DAY)
    return made


def tag(made: HandMade, number: int, name: str, *, created: datetime | None = None, days: float | None = None) -> None:
    made.copy(number, f"tag/tag-{name}")
    file = made.root / "tag" / f"tag-{name}"
    own: dict[str, Any] = json.loads(file.read_text())
    if created is not None:
        own["tagCreateTime"] = [*created.timetuple()[:6], 526528813]
    if days is not None:
        own["tagTimeRetained"] = days * 86400.0
    file.write_text(json.dumps(own))


def names(operation: Operation) -> list[str]:
    parameters: Any = operation.process.parameters
    return [one["name"] for one in parameters["tags"]]


def admitted(service: PluginHarness, **asked: Any) -> Operation:
    return service.admitted(service.asked(ACTION, **asked))


def test_a_tag_past_its_own_time_goes_and_one_of_a_person_never(tmp_path: Path, sentences: Sentences) -> None:
    made = table(tmp_path)
    tag(made, 1, "over", created=NOON - 10 * DAY, days=8.5)
    tag(made, 2, "kept", created=NOON - 400 * DAY)
    tag(made, 3, "release 1.0")
    tag(made, 4, "long", created=NOON - 10 * DAY, days=30)
    service = harness(made.root)
    sentences.check("tags are over", wanted(service, ACTION), over=1, tags=4, grace="1d", names="over")

    operation = admitted(service, options={"max-tags": 50})

    assert names(operation) == ["over"]
    assert operation.process.parameters["tags_before"] == 4


def test_a_tag_stays_for_the_grace_which_nobody_shortens(tmp_path: Path, sentences: Sentences) -> None:
    made = table(tmp_path)
    tag(made, 1, "over", created=NOON - 2 * DAY, days=1.1)
    for properties, grace in (({}, "1d"), ({"expire_tags__grace": "0s"}, "1d"), ({"expire_tags__grace": "3d"}, "3d")):
        reason = skipped(harness(made.root, **properties), ACTION)
        sentences.check("no tag is over", reason, over=0, tags=1, grace=grace)
    service = harness(made.root)
    assert names(admitted(service, options={"grace": "1s"})) == []


def test_automatic_tags_go_by_number_only_with_a_setting(tmp_path: Path, sentences: Sentences) -> None:
    made = table(tmp_path, options=AUTOMATIC)
    for number in range(1, 11):
        tag(made, number, f"2026-10-{number:02}")
    tag(made, 11, "2026-10-1")
    tag(made, 12, "2026-10-32")
    sentences.check("no tag is over", skipped(harness(made.root), ACTION), over=0, tags=12, grace="1d")
    assert names(admitted(harness(made.root), options={"retain-auto": 8})) == [], "a request alone sets nothing"

    service = harness(made.root, expire_tags__retain_auto="8")

    found = {"over": 0, "tags": 12, "grace": "1d", "automatic": 2, "kept": 8, "names": "2026-10-02, 2026-10-01"}
    sentences.check("more automatic tags than are kept", wanted(service, ACTION), **found)
    assert names(admitted(service, options={"retain-auto": 9})) == ["2026-10-01"], "a request keeps more"
    assert names(admitted(harness(made.root, expire_tags__retain_auto="1"))) == [
        "2026-10-03",
        "2026-10-02",
        "2026-10-01",
    ]


@pytest.mark.parametrize(
    ("options", "name", "goes"),
    [
        ({}, "2026-09-01", True),
        ({"tag.automatic-creation": "none"}, "2026-09-01", False),
        ({"tag.creation-period": "hourly"}, "2026-09-01", False),
        ({"tag.creation-period": "hourly"}, "2026-09-01 05", True),
        ({"tag.period-formatter": "without_dashes"}, "2026-09-01", False),
        ({"tag.period-formatter": "without_dashes"}, "20260901", True),
        ({"tag.creation-period": "monthly"}, "2026-09-01", False),
    ],
)
def test_automatic_tags_have_the_names_that_the_table_makes(
    tmp_path: Path, options: dict[str, str], name: str, goes: bool
) -> None:
    made = table(tmp_path, options={**AUTOMATIC, **options})
    form = "2026-10-{:02} 05" if " " in name else "202610{:02}" if "-" not in name else "2026-10-{:02}"
    for number in range(1, 8):
        tag(made, number + 1, form.format(number))
    tag(made, 1, name)
    assert names(admitted(harness(made.root, expire_tags__retain_auto="7"))) == [name] * goes


def test_an_automatic_tag_that_is_young_or_has_its_own_time_stays_whatever_the_number_is(tmp_path: Path) -> None:
    made = table(tmp_path, options=AUTOMATIC)
    young = made.commit(at=NOON - DAY / 2)
    for number in range(1, 8):
        tag(made, number, f"2026-10-{number:02}")
    tag(made, young, "2026-09-01")
    tag(made, 8, "2026-09-02", created=NOON - 10 * DAY, days=30)
    assert names(admitted(harness(made.root, expire_tags__retain_auto="7"))) == []


def test_a_tag_that_a_branch_began_at_is_kept(tmp_path: Path, sentences: Sentences) -> None:
    made = table(tmp_path)
    for number, name in ((1, "free"), (2, "forked"), (3, "tagged in the branch")):
        tag(made, number, name, created=NOON - 10 * DAY, days=1)
    made.copy(2, "branch/branch-b/snapshot/snapshot-2")
    made.copy(3, "branch/branch-b/tag/tag-x")
    found = {"over": 1, "tags": 3, "grace": "1d", "names": "free", "kept": 2}
    sentences.check("tags are kept for branches", wanted(harness(made.root), ACTION), **found)


def test_a_run_deletes_a_bounded_number(tmp_path: Path, sentences: Sentences) -> None:
    made = table(tmp_path)
    for number in range(1, 6):
        tag(made, number, f"t{number}", created=NOON - 10 * DAY, days=1)
    service = harness(made.root, expire_tags__max_tags="2")
    found = {"over": 5, "tags": 5, "grace": "1d", "names": "t1, t2, t3", "more": 2}
    sentences.check("more tags are over than are named", wanted(service, ACTION), **found)
    assert names(admitted(service)) == ["t1", "t2"]


@pytest.mark.parametrize(
    ("created", "retained"),
    [
        (None, 5.0),
        ([2026, 1, 1, 0, 0], None),
        ("2026-01-01T00:00:00", 5.0),
        ([2026, 13, 1, 0, 0], 5.0),
        ([2026, 1, 1], 5.0),
        ([2026, 1, 1, 0, "0"], 5.0),
        ([2026, 1, 1, 0, 0], "PT5H"),
        ([2026, 1, 1, 0, 0], -1.0),
        ([2026, 1, 1, 0, 0], True),
        ([2026, 1, 1, 0, 0], 1e300),
    ],
)
def test_a_time_that_cannot_be_read_is_never_over(created: Any, retained: Any) -> None:
    assert end_of({"tagCreateTime": created, "tagTimeRetained": retained}) is None


def prepared(folder: Path) -> tuple[HandMade, PluginHarness, Operation]:
    made = table(folder)
    for number in (1, 2):
        tag(made, number, f"t{number}", created=NOON - 10 * DAY, days=1)
    tag(made, 3, "kept")
    service = harness(made.root)
    return made, service, admitted(service)


def test_a_verdict_needs_exactly_the_announced_tags_to_be_gone(tmp_path: Path, sentences: Sentences) -> None:
    made, service, operation = prepared(tmp_path)
    (made.root / "tag" / "tag-t1").unlink()
    still = service.verdict(operation, {})
    assert still.finding is Finding.NOT_DONE
    sentences.check("tags are still there", still.reason, left=1, announced=2, first="t2")
    (made.root / "tag" / "tag-t2").unlink()

    verdict = service.verdict(operation, {})

    assert (verdict.finding, verdict.numbers["changed"]) == (Finding.DONE, True)
    sentences.check("tags are gone", verdict.reason, gone=2, announced=2, before=3, now=1)


def test_a_tag_that_somebody_made_anew_is_not_waited_for(tmp_path: Path, sentences: Sentences) -> None:
    made, service, operation = prepared(tmp_path)
    (made.root / "tag" / "tag-t1").unlink()
    tag(made, 2, "t2", created=NOON, days=1)
    found = {"gone": 1, "announced": 2, "kept": 1, "before": 3, "now": 2}
    sentences.check("tags were changed meanwhile", service.verdict(operation, {}).reason, **found)


def test_a_tag_that_is_left_and_cannot_be_read_is_not_called_done(tmp_path: Path) -> None:
    made, service, operation = prepared(tmp_path)
    for name in ("t1", "t2"):
        (made.root / "tag" / f"tag-{name}").unlink()
    kept = json.loads((made.root / "tag" / "tag-kept").read_text())
    (made.root / "manifest" / kept["deltaManifestList"]).unlink()
    assert service.verdict(operation, {}).finding is Finding.UNREADABLE
