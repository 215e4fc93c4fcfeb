# SPDX-License-Identifier: Apache-2.0
"""What requests and answers are made of."""

import copy
import pickle
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta, timezone

import pytest
from pydantic import TypeAdapter

from lakehand.api.alerts import AlertQuery, SilenceRequest, TestAnswer, TestRequest
from lakehand.api.fields import Answer, Moment, answer, given_values, values_of
from lakehand.api.operations import OperationRequest
from lakehand.client.answers import read
from lakehand.domain.alerts import Severity

DOCUMENT = {"receiver": "ops", "sent": True, "problem": "", "colour": "blue"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick(Answer):
    at: Moment | None
    severity: Severity = Severity.CRITICAL


def test_an_answer_is_filled_by_names_and_the_last_that_has_a_name_counts() -> None:
    first, second = TestRequest(receiver="first"), TestRequest(receiver="second")

    assert answer(TestAnswer, first, second, sent=True, problem="").receiver == "second"
    with pytest.raises(LookupError, match="nothing has a value for the field sent"):
        answer(TestAnswer, first, problem="")


def test_a_time_is_sent_in_utc_with_milliseconds() -> None:
    noon = datetime(2026, 11, 15, 12, 0, 0, 123456, tzinfo=timezone(timedelta(hours=2)))

    assert TypeAdapter(Tick).dump_python(Tick(at=noon))["at"] == "2026-11-15T10:00:00.123Z"
    assert read(Tick, {"at": "2026-11-15T10:00:00.123Z", "severity": "x"}).at == noon.replace(microsecond=123000)


def test_a_word_is_one_of_its_set_and_what_only_a_newer_service_knows_stays_text() -> None:
    known = answer(Tick, at=None, severity=Severity.WARNING)

    assert TypeAdapter(Tick).dump_python(known, mode="json") == {"at": None, "severity": "warning"}
    assert read(Tick, {"severity": "warning"}).severity is Severity.WARNING
    assert type(read(Tick, {"severity": "odd"}).severity) is str


def test_the_raw_document_is_only_the_clients() -> None:
    known = read(TestAnswer, DOCUMENT)

    assert known.raw == DOCUMENT
    assert known == TestAnswer(receiver="ops", sent=True, problem="")
    assert "blue" not in repr(known)
    assert [one.raw for one in (copy.copy(known), pickle.loads(pickle.dumps(known)))] == [DOCUMENT, DOCUMENT]
    assert asdict(known)["raw"] == DOCUMENT
    adapter = TypeAdapter(TestAnswer)
    assert "raw" not in adapter.dump_python(known)
    assert "raw" not in adapter.json_schema()["properties"]


def test_a_request_gives_its_values_by_name() -> None:
    assert values_of(SilenceRequest(duration=60)) == {"duration": 60}
    assert values_of(AlertQuery(state="all")) == {"limit": 100, "cursor": None, "state": "all"}
    assert given_values(AlertQuery(state="all", limit=100)) == {"state": "all"}
    assert given_values(OperationRequest(action="clean")) == {"action": "clean"}
