# SPDX-License-Identifier: Apache-2.0
"""What a Delta table's own properties and protocol say: retention, sizes, and whether the engine may rewrite it."""

import re
from collections.abc import Mapping
from datetime import timedelta

from lakehand.spi import Invalid

RETENTION = "delta.deletedFileRetentionDuration"
RETENTION_DEFAULT = timedelta(days=7)
TARGET_SIZE = "delta.targetFileSize"
OTHER_FORMATS = "delta.universalFormat.enabledFormats"
_PART = re.compile(r"(\d+)\s*(week|day|hour|minute|second|millisecond|microsecond)s?", re.IGNORECASE)
_SIZE = re.compile(r"(\d+)\s*([kmgt]?)i?b?", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def retention(configuration: Mapping[str, str]) -> timedelta:
    """How long removed files must stay. Raises where it is told in words that we do not understand."""
    text = configuration.get(RETENTION)
    if text is None:
        return RETENTION_DEFAULT
    parts = _PART.findall(text)
    rest = _PART.sub("", text).strip().lower()
    if not parts or rest not in ("", "interval"):
        raise Invalid(f"{RETENTION} is {text!r}, which is no interval such as 'interval 30 days'")
    return sum((timedelta(**{f"{unit.lower()}s": int(count)}) for count, unit in parts), timedelta())


def target_size(configuration: Mapping[str, str]) -> int | None:
    found = _SIZE.fullmatch(configuration.get(TARGET_SIZE, "").strip())
    return int(found[1]) * 1024 ** _POWERS[found[2].lower()] if found else None
