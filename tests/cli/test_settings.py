# SPDX-License-Identifier: Apache-2.0
"""lakehand settings: the rows of each format, without a service."""

from tests.cli.conftest import Run, answer
from tests.kit.sentences import Sentences


def test_the_settings_of_a_format_are_listed_with_default_floor_and_who_may_set_them(lakehand: Run) -> None:
    listed = answer(lakehand("settings", "delta", "--json"))

    assert list(listed) == ["delta"]
    [retain] = [row for row in listed["delta"] if row["setting"] == "delta.vacuum.retain"]
    assert (retain["type"], retain["default"], retain["floor"]) == ("duration", "7d", "7d")
    assert retain["set_by"] == "operator, table, request"
    shown = lakehand("settings", "delta")
    assert (shown.exit_code, "delta.vacuum.retain-floor" in shown.output) == (0, True)


def test_without_a_name_all_formats_are_listed_and_an_unknown_one_is_refused(
    lakehand: Run, sentences: Sentences
) -> None:
    assert {"delta", "hudi", "iceberg", "lance", "paimon"} <= set(answer(lakehand("settings", "--json")))
    result = lakehand("settings", "orc")
    assert result.exit_code == 1
    formats = "delta, hudi, iceberg, lance, paimon"
    sentences.check("no such plugin", result.stderr.strip(), name="'orc'", formats=formats)
