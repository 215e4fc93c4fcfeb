# SPDX-License-Identifier: Apache-2.0
"""Untrusted text: made visible, so that no character moves the cursor or hides another; and its first sentence."""

import re

# C0, DEL and C1; soft hyphens and zero-width characters; line separators; bidi marks and overrides; tags; surrogates,
# which stand for bytes in file names that are not UTF-8.
_UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0"
    "\ufff9-\ufffb\U000e0000-\U000e0fff\ud800-\udfff]"
)
LONGEST_SENTENCE = 300


def first_sentence(text: str) -> str:
    """The first line of a message up to its first full stop, without it; a very long one is cut."""
    line = text.strip().partition("\n")[0].partition(". ")[0].rstrip(". ")
    return line if len(line) <= LONGEST_SENTENCE else f"{line[: LONGEST_SENTENCE - 1]}…"


def visible(text: object, *, keep: str = "") -> str:
    """The text with its unseen characters escaped as Python writes them, apart from those to keep."""
    return _UNSEEN.sub(lambda found: found[0] if found[0] in keep else escape(found[0]), str(text))


def escape(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")
