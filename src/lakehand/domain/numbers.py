# SPDX-License-Identifier: Apache-2.0
"""Numbers that people write and read."""

LARGEST_ID = 2**63 - 1  # what every database can hold


def read_id(text: str) -> int | None:
    """The id that a text is; None for everything else, such as ``²``, which counts as a digit and is not a number."""
    if not (text.isascii() and text.isdecimal()) or len(text) > len(str(LARGEST_ID)):
        return None
    return int(text) if int(text) <= LARGEST_ID else None


def amount(size: float) -> str:
    """Bytes for people: ``1.2 GB``."""
    for unit in ("B", "KB", "MB", "GB", "TB"):
        if abs(size) < 1024:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} PB"
