# SPDX-License-Identifier: Apache-2.0
"""What is on record is whole and neutral, so that tests of the wire may build on it."""

import pytest

from tests.hudi_client import Recording, recordings
from tests.hudi_client.record import SCENARIOS

RECORDINGS = recordings()


def test_every_scenario_is_on_record() -> None:
    assert list(RECORDINGS) == [scenario.name for scenario in SCENARIOS]


@pytest.mark.parametrize("recording", RECORDINGS.values(), ids=list(RECORDINGS))
def test_a_recording_names_tables_under_data_only(recording: Recording) -> None:
    assert recording.requests
    for request in recording.requests:
        location = request.json["basePath"] if request.body else request.parameters["basepath"]
        assert location.startswith(("/data/", "file:/data/", "file:///data/"))


def test_several_pending_plans_come_as_one_list() -> None:
    last = RECORDINGS["several-pending"].requests[-1]

    assert len(last.parameters["instant"].split(",")) == 2
    assert "%2C" in last.target


def test_client_and_callback_write_the_same_place_in_two_ways() -> None:
    posted, asked = RECORDINGS["file-uri"].requests[:2]

    assert (posted.json["basePath"], asked.parameters["basepath"]) == ("file:///data/trips", "file:/data/trips")


def test_a_percent_sign_in_a_name_survives_one_decoding() -> None:
    [posted, asked] = RECORDINGS["escaped-path"].requests

    assert asked.parameters["basepath"] == posted.json["basePath"] == "/data/north%20sea"
