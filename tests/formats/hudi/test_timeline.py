# SPDX-License-Identifier: Apache-2.0
"""Names of timeline files, in both layouts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehand.formats.hudi.timeline import State, Timeline, in_order, parse_entry
from lakehand.storage import Entry
from tests.formats.hudi.runtime import NOON

FIRST, SECOND = "20261115120000000", "20261115120001000"
NOT_OF_THE_TIMELINE = [
    "hoodie.properties",
    "lock",
    "archived",
    f".{FIRST}.commit.crc",
    "history",
    f"{FIRST}",
    "1.commit",
]

instants = st.integers(min_value=0, max_value=40).map(lambda n: f"202611151200{n:02d}000")
steps = st.sampled_from(["commit", "deltacommit", "compaction.requested", "compaction.inflight", "clean", "inflight"])


def timeline(*names: str) -> Timeline:
    return Timeline.of(Entry(name=name, size=1, modified=NOON) for name in names)


@pytest.mark.parametrize(
    ("name", "action", "state"),
    [
        (f"{FIRST}.commit", "commit", State.COMPLETED),
        (f"{FIRST}_{SECOND}.replacecommit", "replacecommit", State.COMPLETED),
        (f"{FIRST}.compaction.requested", "compaction", State.REQUESTED),
        (f"{FIRST}.clustering.inflight", "clustering", State.INFLIGHT),
        (f"{FIRST}.inflight", "commit", State.INFLIGHT),
        (f"{FIRST[:14]}.deltacommit", "deltacommit", State.COMPLETED),
    ],
)
def test_instant_action_and_state_are_parsed_from_a_name(name: str, action: str, state: State) -> None:
    [file] = timeline(name).files

    assert (file.instant, file.action, file.state) == (name.partition(".")[0].partition("_")[0], action, state)


@pytest.mark.parametrize("name", NOT_OF_THE_TIMELINE)
def test_other_files_are_not_part_of_the_timeline(name: str) -> None:
    assert parse_entry(Entry(name=name, size=1, modified=NOON)) is None


def test_a_plan_is_pending_until_its_instant_is_completed() -> None:
    plan = (f"{FIRST}.compaction.requested", f"{FIRST}.compaction.inflight")

    [pending] = timeline(*plan).pending()
    assert pending.state is State.INFLIGHT
    assert not timeline(*plan, f"{FIRST}_{SECOND}.commit").pending()


def test_instants_of_14_and_17_digits_are_in_one_order() -> None:
    assert in_order("20261115120000") < in_order("20261115120000001") < in_order("20261115120001")


@given(st.lists(st.tuples(instants, steps), max_size=30))
def test_every_instant_is_either_completed_or_pending(files: list[tuple[str, str]]) -> None:
    found = timeline(*(f"{instant}.{step}" for instant, step in dict.fromkeys(files)))

    completed = {file.instant for file in found.completed()}
    pending = {file.instant for file in found.pending()}
    assert completed | pending == {instant for instant, _ in files}
    assert not completed & pending
