# SPDX-License-Identifier: Apache-2.0
"""Words of closed sets, numbers and untrusted text, as people read and write them.

Untrusted text is made visible, so that no character moves the cursor or hides another.
"""

import re
from enum import Enum

# C0, DEL and C1; soft hyphens and zero-width characters; line separators; bidi marks and overrides; tags; surrogates,
# which stand for bytes in file names that are not UTF-8.
_UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0"
    "\ufff9-\ufffb\U000e0000-\U000e0fff\ud800-\udfff]"
)
LONGEST_SENTENCE = 300
LARGEST_ID = 2**63 - 1  # what every database can hold


def first_sentence(text: str) -> str:
    """The first line of a message up to its first full stop, without it; a very long one is cut."""
    line = text.strip().partition("\n")[0].partition(". ")[0].rstrip(". ")
    return line if len(line) <= LONGEST_SENTENCE else f"{line[: LONGEST_SENTENCE - 1]}…"


def visible(text: object, *, keep: str = "") -> str:
    """The text with its unseen characters escaped as Python writes them, apart from those to keep."""
    return _UNSEEN.sub(lambda found: found[0] if found[0] in keep else escape(found[0]), str(text))


def escape(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


class Word(str, Enum):
    """One word of a closed set. Behaves as Python 3.11's ``StrEnum`` on 3.10 too."""

    def __str__(self) -> str:
        return str(self.value)


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


def span(seconds: float) -> str:
    """340 ms, 12 s, 3 min, 5 h, 2 d."""
    if seconds < 1:
        return f"{round(seconds * 1000)} ms"
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"


def ago(seconds: float) -> str:
    """How long ago, or in how long."""
    if abs(seconds) < 1:
        return "now"
    return f"{span(seconds)} ago" if seconds > 0 else f"in {span(-seconds)}"
