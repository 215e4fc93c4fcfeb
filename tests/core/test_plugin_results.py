# SPDX-License-Identifier: Apache-2.0
"""Checking the results of plugins reads nothing from the table."""

from dataclasses import dataclass, field

import pytest

from lakehand.core.plugins.proxies import check_snapshot
from lakehand.domain.errors import PluginBroken
from tests.kit.sentences import Sentences


class Costly:
    token = "t"

    @property
    def numbers(self) -> dict[str, int]:
        raise AssertionError("the whole table was listed")


@dataclass(frozen=True, slots=True)
class Plain:
    token: str = "t"
    numbers: dict[str, int] = field(default_factory=dict)


@pytest.mark.parametrize("snapshot", [Costly(), Plain()])
def test_a_snapshot_is_checked_without_counting_anything(snapshot: object) -> None:
    check_snapshot(snapshot)


def test_a_snapshot_without_numbers_is_refused(sentences: Sentences) -> None:
    with pytest.raises(PluginBroken) as broken:
        check_snapshot("a snapshot")
    sentences.check("a snapshot without numbers", str(broken.value))
