# SPDX-License-Identifier: Apache-2.0
"""A list of a REST catalog, page by page, with an end: whatever the catalog answers, it fills no memory."""

from collections.abc import Callable, Iterable
from hashlib import blake2b

from lakehand.spi import Invalid

MOST_NAMES = 500_000  # in one list
MOST_PAGES = 20_000
MOST_IDLE = 10  # pages in a row without anything new; an empty one is allowed, for example of views

Name = tuple[str, ...]
Ask = Callable[[str | None], tuple[Iterable[Name], str | None]]


def all_pages(ask: Ask, *, what: str) -> list[Name]:
    """Each name once. ``ask`` returns the names of a page and the token of the next one; ``what`` is for errors."""
    found: dict[Name, None] = {}
    tokens: set[bytes] = set()
    token, idle = None, 0
    for _ in range(MOST_PAGES):
        before = len(found)
        names, token = ask(token)
        found.update(dict.fromkeys(names))
        if not token:
            return list(found)
        idle = 0 if len(found) > before else idle + 1
        short = blake2b(token.encode(), digest_size=16).digest()  # a token may be long
        if len(found) > MOST_NAMES:
            raise endless(what, f"it has more than {MOST_NAMES} names")
        if idle and short in tokens:
            raise endless(what, "a page token comes again, and brings nothing new")
        if idle >= MOST_IDLE:
            raise endless(what, f"{idle} pages in a row bring nothing new")
        tokens.add(short)
    raise endless(what, f"it has more than {MOST_PAGES} pages")


def endless(what: str, why: str) -> Invalid:
    return Invalid(f"the list of {what} does not end: {why}. Nothing is retired; look at the catalog's page tokens")
