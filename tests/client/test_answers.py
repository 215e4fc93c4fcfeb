# SPDX-License-Identifier: Apache-2.0
"""Answers of other versions of the service, and what importing the client costs."""

import pickle
import subprocess
import sys

import pytest

import lakehand.client
from lakehand.api.fields import PageAnswer
from lakehand.client import Instance, NotFound, OperationEnd, RequestFailed, Version
from lakehand.client.answers import read
from lakehand.domain.operations import Status

DOCUMENT = {"name": "lakehand", "version": "1", "instance": "one", "python": "3"}


def test_fields_of_a_newer_service_are_only_in_the_raw_document() -> None:
    version = read(Version, DOCUMENT | {"colour": "blue"})

    assert version == Version(name="lakehand", version="1", instance="one", python="3")
    assert version.raw["colour"] == "blue"
    assert "blue" not in repr(version)


def test_what_an_older_service_does_not_send_is_named() -> None:
    with pytest.raises(RequestFailed, match=r"has no instance, python: is its version much older"):
        read(Version, {"name": "lakehand", "version": "1"})


def test_an_optional_field_may_be_missing() -> None:
    assert read(PageAnswer[Version], {"items": [DOCUMENT]}).next is None


def test_what_is_no_object_is_refused() -> None:
    with pytest.raises(RequestFailed, match="answered with list instead of an object"):
        read(Version, [])


def test_a_time_without_a_fraction_and_one_with_an_offset_are_read() -> None:
    times = {"started_at": "2026-11-15T19:10:13Z", "seen_at": "2026-11-15T20:10:13.500+01:00"}
    instance = read(Instance, {"id": "one", "host": "here", "version": "1", "state": "serving", "detail": {}, **times})

    assert (instance.seen_at - instance.started_at).total_seconds() == 0.5


def test_a_word_that_only_a_newer_service_has_stays_text() -> None:
    end = {"id": 1, "action": "clean", "finished_at": "2026-11-15T19:10:13Z", "result": {}}

    assert read(OperationEnd, end | {"status": "failed"}).status is Status.FAILED
    assert str(read(OperationEnd, end | {"status": "paused"}).status) == "paused"


def test_an_error_can_come_from_another_process() -> None:
    error = pickle.loads(pickle.dumps(NotFound("no table 7", code="gone", status=404)))

    assert (type(error), error.message, error.code, error.status) == (NotFound, "no table 7", "gone", 404)


def test_every_public_name_is_there_and_no_other() -> None:
    assert all(getattr(lakehand.client, name) is not None for name in lakehand.client.__all__)
    with pytest.raises(AttributeError, match="client has no LakeClient"):
        getattr(lakehand.client, "LakeClient")  # noqa: B009 - mypy knows that it is not there


LIGHT = """
import sys
import lakehand.cli
import lakehand.client
heavy = {"httpx", "asyncio", "lakehand.client.groups", "lakehand.api.tables"} & set(sys.modules)
assert not heavy, heavy
from lakehand.client import LakehandClient
assert not {"httpx", "pydantic", "asyncio"} & set(sys.modules)
"""


def test_the_command_starts_without_the_types_of_the_client_and_the_client_without_its_libraries() -> None:
    subprocess.run([sys.executable, "-c", LIGHT], check=True)
