# SPDX-License-Identifier: Apache-2.0
"""Without an attack every action is done: the last test of each table that was attacked before."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from lakehand.spi import Action
from tests.attacks.scene import ALWAYS, LISTING, PAIRS, Scenes, fingerprint, nested
from tests.kit.tiers import long_values

pytestmark = [
    pytest.mark.spark,
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


@pytest.mark.parametrize("pair", [*ALWAYS, *long_values(*(pair for pair in PAIRS if pair not in ALWAYS))])
def test_without_an_attack_the_action_is_done_and_a_table_below_is_left_alone(
    scenes: Scenes, inner_tables: dict[str, Path], pair: str
) -> None:
    scene = scenes.get(pair)
    outside = fingerprint(scene.outside)
    with ExitStack() as stack:
        if pair not in LISTING:
            stack.enter_context(nested(scene.table / "inner", inner_tables["delta"]))
        before = fingerprint(scene.table / "inner")
        harness = scene.harness()
        done = harness.serve(scene.action)
        assert done.process.action == Action(scene.action)
        assert fingerprint(scene.table / "inner") == before
    assert (fingerprint(scene.outside), scene.facts()) == (outside, scene.made_with)
