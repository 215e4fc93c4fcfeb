# SPDX-License-Identifier: Apache-2.0
"""A closed set of words: an enum whose members are, and print as, their own text."""

from enum import Enum


class Word(str, Enum):
    """One word of a closed set. Behaves as Python 3.11's ``StrEnum`` on 3.10 too."""

    def __str__(self) -> str:
        return str(self.value)
