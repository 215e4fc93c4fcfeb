# SPDX-License-Identifier: Apache-2.0
"""What requests and answers are made of."""

import copy
import pickle
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta, timezone
from typing import Annotated

import pytest
from pydantic import TypeAdapter, ValidationError

from lakehand.api.alerts import AlertQuery, SilenceRequest, TestAnswer, TestRequest
from lakehand.api.fields import Answer, Moment, OneOf, answer, values_of
from lakehand.client.answers import read
from lakehand.domain.access import Role
from lakehand.domain.alerts import Severity

DOCUMENT = {"receiver": "ops", "sent": True, "problem": "", "colour": "blue"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick(Answer):
    at: Moment | None
    severity: str = "critical"


def test_an_answer_is_filled_by_names_and_the_last_that_has_a_name_counts() -> None:
    first, second = TestRequest(receiver="first"), TestRequest(receiver="second")

    assert answer(TestAnswer, first, second, sent=True, problem="").receiver == "second"
    assert type(answer(Tick, at=None, severity=Severity.WARNING).severity) is str
    with pytest.raises(LookupError, match="nothing has a value for the field sent"):
        answer(TestAnswer, first, problem="")


def test_a_time_is_sent_in_utc_with_milliseconds() -> None:
    noon = datetime(2026, 11, 15, 12, 0, 0, 123456, tzinfo=timezone(timedelta(hours=2)))

    assert TypeAdapter(Tick).dump_python(Tick(at=noon))["at"] == "2026-11-15T10:00:00.123Z"
    assert read(Tick, {"at": "2026-11-15T10:00:00.123Z", "severity": "x"}).at == noon.replace(microsecond=123000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Signed(Answer):
    role: Annotated[str, OneOf(Role)]


def test_a_word_of_an_enum_may_be_plain_text_and_no_other_word_is_taken() -> None:
    adapter = TypeAdapter(Signed)

    assert [adapter.dump_json(Signed(role=role)) for role in ("admin", Role.ADMIN)] == [b'{"role":"admin"}'] * 2
    assert adapter.validate_python({"role": "admin"}) == Signed(role="admin")
    with pytest.raises(ValidationError, match="'viewer', 'operator' or 'admin'"):
        adapter.validate_python({"role": "root"})


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
