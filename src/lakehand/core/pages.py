# SPDX-License-Identifier: Apache-2.0
"""One page of a long list."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[T]):
    items: Sequence[T]
    next: str | None  # the cursor of the next page; None at the end
