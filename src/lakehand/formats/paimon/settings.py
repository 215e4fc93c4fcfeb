# SPDX-License-Identifier: Apache-2.0
"""The settings that several actions of Paimon tables share."""

from typing import TypeVar

from lakehand.formats.paimon.snapshot import PaimonSnapshot
from lakehand.spi import kit

T = TypeVar("T")
PaimonContext = kit.DecisionContext[PaimonSnapshot]
ONLY_WRITER = kit.only_writer_setting("paimon")
ROWS = kit.rows_in(globals())


def set_retention(context: PaimonContext, row: kit.SettingRow[T]) -> T | None:
    """What counts, if the operator or the table set any: a request alone switches no deletion on."""
    return context.values.get(row) if row.key in context.values.config.settings else None
