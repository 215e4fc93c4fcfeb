# SPDX-License-Identifier: Apache-2.0
"""A kit for the process factory of a format: settings as rows, failure rules, admission and verdicts. Public."""

from lakehand.spi.kit.factory import (
    BEFORE,
    Admission,
    DecisionContext,
    FormatFactory,
    Need,
    PlanningFactory,
    is_by_person,
    refused,
)
from lakehand.spi.kit.failures import REFUSED, FailureRule, classify, rule
from lakehand.spi.kit.rows import (
    SetBy,
    SettingRow,
    SettingType,
    bytes_setting,
    choice_setting,
    columns_setting,
    count_setting,
    duration_setting,
    flag_setting,
    share_setting,
    text_setting,
    written,
)
from lakehand.spi.kit.settings import FormatSettings, Values, switches
from lakehand.spi.kit.tables import described, markdown_table
from lakehand.spi.kit.verdicts import dry_run_verdict, left_outside

__all__ = [
    "BEFORE",
    "REFUSED",
    "Admission",
    "DecisionContext",
    "FailureRule",
    "FormatFactory",
    "FormatSettings",
    "Need",
    "PlanningFactory",
    "SetBy",
    "SettingRow",
    "SettingType",
    "Values",
    "bytes_setting",
    "choice_setting",
    "classify",
    "columns_setting",
    "count_setting",
    "described",
    "dry_run_verdict",
    "duration_setting",
    "flag_setting",
    "is_by_person",
    "left_outside",
    "markdown_table",
    "refused",
    "rule",
    "share_setting",
    "switches",
    "text_setting",
    "written",
]
