# SPDX-License-Identifier: Apache-2.0
"""A table whose timeline is in Hudi's metaserver: its files tell nothing, so that nothing is decided from them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lakehand.cli import app
from lakehand.domain.tables import TableReference
from lakehand.formats.hudi import HudiFormat, HudiProcessFactory
from lakehand.formats.hudi.factory import ACTIONS
from lakehand.formats.hudi.snapshot import COMPACTION
from lakehand.spi import Action, Invalid, Skip, TableProcess
from tests.formats.hudi.runtime import ORDERS_V9, TABLES, MemoryRuntime, asked_for, copied, set_property
from tests.kit.sentences import Sentences

KEY = "hoodie.metaserver.enabled"


def answers(table: Path, action: Action, **runtime: Any) -> list[object]:
    """What is decided, and what is admitted of a plan that a writer sent."""
    factory = HudiProcessFactory()
    factory.open(runtime.get("operators", {}))
    return [
        factory.trigger(MemoryRuntime(table, **runtime), action),
        factory.admit(MemoryRuntime(table, **runtime), asked_for(action, ORDERS_V9)),
    ]


@pytest.mark.parametrize("action", sorted(ACTIONS))
@pytest.mark.parametrize(("layer", "source"), [("properties", "table"), ("operators", "plugin")])
def test_no_action_is_decided_or_admitted_for_a_table_that_is_said_to_be_in_it(
    action: Action, layer: str, source: str, sentences: Sentences
) -> None:
    said: Mapping[str, Any] = {layer: {KEY: "true"}}

    for answer in answers(TABLES / "orders_v9", action, **said):
        assert isinstance(answer, Skip), answer
        sentences.check("in the metaserver", answer.reason, key=KEY, source=source)


def test_a_table_that_is_said_not_to_be_in_it_is_served() -> None:
    found = answers(TABLES / "orders_v9", COMPACTION, properties={KEY: "false"})

    assert [type(one) for one in found] == [TableProcess, TableProcess]


def test_a_value_that_is_no_flag_stops_every_action() -> None:
    for answer in answers(TABLES / "orders_v9", COMPACTION, properties={KEY: "maybe"}):
        assert isinstance(answer, Skip)
        assert KEY in answer.reason


@pytest.mark.parametrize("text", ["true", "TRUE"])
def test_a_table_whose_own_properties_say_so_is_not_read(tmp_path: Path, text: str, sentences: Sentences) -> None:
    table = copied("orders_v9", tmp_path)
    set_property(table, KEY, text)
    reference = TableReference(location=str(table))

    for read in (HudiFormat().inspect, HudiFormat().probe):
        with pytest.raises(Invalid) as refused:
            read(reference)
        sentences.check("a table in the metaserver", str(refused.value), location=str(table), key=KEY)


def test_a_check_shows_the_reason_and_no_numbers(tmp_path: Path) -> None:
    table = copied("orders_v9", tmp_path)
    set_property(table, KEY, "true")

    shown = json.loads(CliRunner().invoke(app, ["check", str(table), "--json"]).stdout)

    assert (shown["state"], shown["numbers"], shown["actions"]) == ("broken", {}, [])
    assert KEY in shown["problem"]
