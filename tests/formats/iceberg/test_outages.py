# SPDX-License-Identifier: Apache-2.0
"""A catalog that did not answer is left alone for a while, and only that one."""

import pytest

from lakehand.formats.iceberg.catalogs import AWAY, CatalogAway, Outages
from tests.kit.sentences import Sentences


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def ask(outages: Outages, name: str, error: Exception | None = None) -> str:
    with outages.watched(name):
        if error:
            raise error
        return "answered"


def test_nobody_waits_again_for_a_catalog_that_did_not_answer(sentences: Sentences) -> None:
    clock = Clock()
    outages = Outages(clock)
    with pytest.raises(CatalogAway) as away:
        ask(outages, "lake", ConnectionRefusedError("refused"))
    sentences.check("a catalog does not answer", str(away.value), catalog="lake", error="refused")
    with pytest.raises(CatalogAway) as away:
        ask(outages, "lake")
    error = "ConnectionRefusedError: refused"
    sentences.check("a catalog did not answer before", str(away.value), catalog="lake", error=error)
    assert ask(outages, "pond") == "answered"
    clock.now += AWAY + 1
    assert ask(outages, "lake") == "answered"


def test_an_answer_that_says_no_is_no_outage() -> None:
    outages = Outages()
    with pytest.raises(ValueError, match="torn"):
        ask(outages, "lake", ValueError("torn"))
    assert ask(outages, "lake") == "answered"


def test_the_cause_of_an_error_counts() -> None:
    error = OSError("the JDBC catalog cannot be asked")
    error.__cause__ = TimeoutError()
    with pytest.raises(CatalogAway):
        ask(Outages(), "lake", error)
