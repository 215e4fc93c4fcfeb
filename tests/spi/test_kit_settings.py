# SPDX-License-Identifier: Apache-2.0
"""Setting rows: what is parsed and what is not, who may set what, and floors that nobody lowers."""

from datetime import timedelta
from typing import Any

import pytest

from lakehand.spi import Action, Invalid, Json, layered
from lakehand.spi.kit import (
    FormatSettings,
    SetBy,
    SettingRow,
    bytes_setting,
    choice_setting,
    columns_setting,
    count_setting,
    describe,
    duration_setting,
    flag_setting,
    markdown_table,
    share_setting,
    text_setting,
)

CLEAN = Action.register("clean")
DAY = timedelta(days=1)
KEEP = duration_setting(
    "x.clean.keep", "kept", 5 * DAY, floor=DAY, is_retention=True, set_by=SetBy.REQUEST,
    replaces=("x.clean.keep-hours",), floor_replaces=("x.clean.least-hours",),
)  # fmt: skip
FILES = count_setting("x.clean.files", "so many", 10, floor=2, set_by=SetBy.REQUEST)
ALL = flag_setting("x.clean.all", "everything", False, set_by=SetBy.REQUEST_ONLY)
OWN = text_setting("x.own", "the operator's", "a", set_by=SetBy.OPERATOR)
TARGET = bytes_setting("x.clean.target", "size", default_text="the table's own")


def opened(properties: dict[str, str] | None = None) -> FormatSettings:
    settings = FormatSettings(KEEP, FILES, ALL, OWN, TARGET, passed_on=frozenset({"library.size"}))
    settings.open(properties or {})
    return settings


@pytest.mark.parametrize(
    ("row", "text", "value"),
    [
        (KEEP, "7d", 7 * DAY), (KEEP, "36h", timedelta(hours=36)), (KEEP, " 15m ", timedelta(minutes=15)),
        (KEEP, "90s", timedelta(seconds=90)), (KEEP, "9999999999d", timedelta(days=36_500)),
        (FILES, "0", 0), (FILES, "12", 12), (ALL, "TRUE", True), (TARGET, "1024", 1024), (TARGET, "2MB", 2 * 1024**2),
        (share_setting("x.s", ""), "0.25", 0.25), (share_setting("x.s", ""), "1", 1.0),
        (columns_setting("x.c", ""), "a, b.c", ("a", "b.c")), (columns_setting("x.c", ""), "", ()),
        (choice_setting("x.w", "", "auto", "full"), "FULL", "full"),
    ],
)  # fmt: skip
def test_values_are_read_as_people_write_them(row: SettingRow[Any], text: str, value: object) -> None:
    assert row.parse(text, "table") == value


@pytest.mark.parametrize(
    ("row", "text", "hint"),
    [
        (KEEP, "168", "a duration such as 7d, 36h or 90s"), (KEEP, "-1d", "a duration"), (KEEP, "1.5h", "a duration"),
        (KEEP, "٧d", "a duration"), (FILES, "-1", "a whole number"), (FILES, "1e3", "a whole number"),
        (ALL, "yes", "true or false"), (TARGET, "big", "a number of bytes"),
        (share_setting("x.s", ""), "1.5", "a share from 0 to 1"), (share_setting("x.s", ""), "nan", "a share"),
        (columns_setting("x.c", ""), "a,,b", "names of columns"), (columns_setting("x.c", ""), "a`b", "names"),
        (choice_setting("x.w", "", "auto", "full"), "all", "one of auto, full"),
    ],
)  # fmt: skip
def test_the_error_about_a_senseless_value_names_key_origin_and_an_example(
    row: SettingRow[Any], text: str, hint: str
) -> None:
    with pytest.raises(Invalid) as caught:
        row.parse(text, "table")
    assert str(caught.value).startswith(f"{row.key} is {text!r} (from table): use {hint}")


def test_the_floor_is_raised_by_the_operator_and_lowered_by_nobody() -> None:
    for floor, kept in (("0s", DAY), ("1h", DAY), ("9d", 9 * DAY)):
        settings = opened({"x.clean.keep-floor": floor})
        low = layered(("table", {"x.clean.keep": "1s", "x.clean.keep-floor": "1s"}))
        assert settings.of(low, {"x.clean.keep": "0s"})[KEEP] == kept


def test_of_a_retention_the_longest_counts_and_of_others_the_request() -> None:
    table = layered(("plugin", {"x.clean.files": "4"}), ("table", {"x.clean.keep": "3d"}))
    values = opened().of(table, {"x.clean.keep": "2d", "x.clean.files": "3"})
    assert (values[KEEP], values[FILES]) == (3 * DAY, 3)
    assert opened().of(table, {"x.clean.keep": "4d", "x.clean.files": "0"})[KEEP] == 4 * DAY
    assert opened().of(table, {"x.clean.files": "0"})[FILES] == 2
    assert (values.origin(FILES), opened().of(table).origin(FILES), values.origin(TARGET)) == (
        "request", "plugin", "default",
    )  # fmt: skip


def test_rows_are_read_only_from_where_they_may_be_set() -> None:
    values = opened({"x.own": "b"}).of(layered(("table", {"x.own": "c", "x.clean.all": "true"})))
    assert (values[OWN], values[ALL], values.get(TARGET)) == ("b", False, None)


def test_options_are_those_of_the_action_by_any_spelling() -> None:
    asked: dict[str, Json] = {"keep": "2d", "x.clean.files": 7, "all": True, "library.size": "9"}
    assert opened().options_of(CLEAN, {"options": asked}) == {
        "x.clean.keep": "2d", "x.clean.files": "7", "x.clean.all": "true",
    }  # fmt: skip
    for options, message in (
        ({"target": 1}, "clean has no option 'target'; it has all, files, keep"),
        ({"keep_hours": 2}, "the option keep_hours is now keep: use a duration"),
        ({"keep": [1]}, "keep is [1] (from request): use one value"),
        (["keep"], "options are names with values"),
    ):
        with pytest.raises(Invalid) as caught:
            opened().options_of(CLEAN, {"options": options})
        assert str(caught.value).startswith(message)


@pytest.mark.parametrize("old", ["x.clean.keep-hours", "x.clean.least-hours"])
def test_an_old_key_is_never_ignored(old: str) -> None:
    new = {"x.clean.keep-hours": "x.clean.keep", "x.clean.least-hours": "x.clean.keep-floor"}[old]
    with pytest.raises(Invalid, match=rf"{old} \(from plugin\) is now {new}: use a duration"):
        opened({old: "200"})
    with pytest.raises(Invalid, match=rf"{old} \(from table\) is now {new}: use a duration"):
        opened().of(layered(("table", {old: "200"})))


def test_what_the_operator_sets_is_checked_when_the_plugin_is_opened() -> None:
    with pytest.raises(Invalid, match=r"x.clean.files is 'many' \(from plugin\): use a whole number"):
        opened({"x.clean.files": "many"})


def test_rows_describe_themselves() -> None:
    assert describe(KEEP) == {
        "setting": "x.clean.keep", "type": "duration", "default": "5d", "floor": "1d",
        "set_by": "operator, table, request", "meaning": "kept",
    }  # fmt: skip
    table = markdown_table(opened().rows)
    assert table.startswith("| setting | type | default | floor | set by | meaning |\n|---|---|---|---|---|---|\n")
    assert "| `x.clean.keep-floor` | duration | 1d | 1d | operator |" in table
    assert "| `x.clean.target` | bytes | the table's own |  | operator, table | size |" in table
