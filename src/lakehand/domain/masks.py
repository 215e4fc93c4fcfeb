# SPDX-License-Identifier: Apache-2.0
"""Hides the secrets of the settings in texts that others write: errors of libraries, logs, results of jobs.

A library may repeat what it was given, whole or in part, quoted or encoded. So the values are hidden wherever they
appear, whatever stands around them. What was never in the settings, for instance a token that a catalog handed out, is
known by its name only: what follows ``Authorization:`` or ``client_secret=`` is hidden, too.
"""

import base64
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, quote, quote_plus, urlsplit

HIDDEN = "***"
LEAST = 4  # characters of a secret
LEAST_PART = 6  # characters of a part of one
SWITCHES = frozenset({"true", "false", "none"})
SCHEMES = frozenset({"bearer", "basic", "digest", "negotiate"})  # of headers
_SECRET_KEY = re.compile(r"pass|pwd|secret|token|credential|key|auth|header|cookie|signature|sas", re.IGNORECASE)
# Keys whose values are not secrets, but for a password or a query in an address.
_PUBLIC_KEY = re.compile(
    r"(^|[._-])(uri|url|warehouse|endpoint|region|type|impl|class|provider|path-style-access|enabled|delegation|version"
    r"|format|prefix|scope|audience|schema|user|username|timeout|interval|clients)$",
    re.IGNORECASE,
)
# Words, numbers with a unit, and names of classes.
_PLAIN = re.compile(r"[A-Za-z_-]*|-?[\d.]+\s*[a-z]*|[A-Za-z_][\w$]{0,40}(\.[A-Za-z_$][\w$]{0,40})+")
_SEPARATORS = re.compile(r"[\s:;,=@/?&|]+")
_NAMED = re.compile(
    r"((?:authorization|passw(?:or)?d|client[._-]?secret|secret[._-]?(?:access[._-]?)?key|secret|credentials?"
    r"|(?:access|refresh|session|bearer|security)[._-]?token|api[._-]?key)[\"']?\s*[=:]\s*[\"']?(?:(?:bearer|basic)\s+)?"
    r"|\b(?:bearer|basic)\s+(?=[\w+/=.~-]*[\d=.]))"
    r"[^\s&\"',;(){}\[\]]*[^\s&\"',;(){}\[\]:]",
    re.IGNORECASE,
)
_URL_PASSWORD = re.compile(r"(://[^/\s:@]*:)[^/\s@]+@")


def secrets_in(properties: Mapping[str, str], *, is_strict: bool = True) -> Iterator[str]:
    """The secrets among properties. ``is_strict``: also what nobody knows under a name that says nothing."""
    for key, value in properties.items():
        is_secret = bool(_SECRET_KEY.search(key)) and value.lower() not in SWITCHES
        is_unknown = is_strict and not (_PLAIN.fullmatch(value) or "://" in value or value.startswith("/"))
        yield from secrets_in_address(value)
        if (is_secret or is_unknown) and not _PUBLIC_KEY.search(key):
            yield value
            yield from parts_of(value)


def secrets_in_address(address: str) -> Iterator[str]:
    """The password of a URL and the values of its query; of JDBC's URLs, too."""
    try:
        found = urlsplit(address.removeprefix("jdbc:"))
        password = found.password
    except ValueError:
        return
    if password:
        yield password
    yield from (value for key, value in parse_qsl(found.query) if _SECRET_KEY.search(key) and len(value) >= LEAST)


def odd_parts_of(secret: str) -> Iterator[str]:
    """Those that are not a word, number or name of a host: in texts about other things, these mean something else."""
    yield from (part for part in parts_of(secret) if not _PLAIN.fullmatch(part))


def parts_of(secret: str) -> Iterator[str]:
    """Such as the two parts of ``id:secret``, or what follows ``Bearer``."""
    yield from (part for part in _SEPARATORS.split(secret) if len(part) >= LEAST_PART and part.lower() not in SCHEMES)


def spellings(secret: str) -> Iterator[str]:
    """As it may stand in an address, a header, JSON or Python."""
    yield secret
    yield quote(secret, safe="")
    yield quote_plus(secret)
    yield base64.b64encode(secret.encode()).decode()
    yield json.dumps(secret)[1:-1]
    yield repr(secret)[1:-1]


@dataclass(frozen=True)
class Masks:
    """Hides these secrets. Without any, only what stands behind the name of a secret."""

    secrets: frozenset[str] = field(default=frozenset(), repr=False)
    _known: "re.Pattern[str] | None" = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        texts = {text for secret in self.secrets if len(secret) >= LEAST for text in spellings(secret)}
        longest_first = sorted(texts, key=lambda text: (-len(text), text))
        pattern = re.compile("|".join(map(re.escape, longest_first))) if texts else None
        object.__setattr__(self, "_known", pattern)

    @classmethod
    def of(cls, *properties: Mapping[str, str], secrets: Iterable[str] = ()) -> "Masks":
        """``properties``: of catalogs; ``secrets``: what is secret as a whole."""
        found = {one for each in properties for one in secrets_in(each)}
        return cls(frozenset(found | set(secrets)))

    def hide(self, text: str) -> str:
        return self._replace(text, lambda _: HIDDEN)

    def hide_evenly(self, text: str) -> str:
        """With as many characters as before: for whoever counts them, to read on."""
        return self._replace(text, lambda hidden: "*" * len(hidden))

    def _replace(self, text: str, mask: Callable[[str], str]) -> str:
        if self._known is not None:
            text = self._known.sub(lambda found: mask(found[0]), text)
        text = _NAMED.sub(lambda found: found[1] + mask(found[0][len(found[1]) :]), text)
        return _URL_PASSWORD.sub(lambda found: f"{found[1]}{mask(found[0][len(found[1]) : -1])}@", text)

    def hide_all(self, value: Any) -> Any:
        """The texts in a document."""
        if isinstance(value, str):
            return self.hide(value)
        if isinstance(value, Mapping):
            return {key: self.hide_all(one) for key, one in value.items()}
        return [self.hide_all(one) for one in value] if isinstance(value, list | tuple) else value

    def hide_error(self, error: BaseException) -> BaseException:
        """The same error without secrets, also in its causes; another one where its text cannot be changed."""
        if not self._clean(error):
            return OSError(self.hide(f"{type(error).__name__}: {error}"))
        seen, link = {id(error)}, error
        while (cause := link.__cause__ or link.__context__) is not None:
            if id(cause) in seen or not self._clean(cause):
                link.__cause__ = link.__context__ = None
                break
            seen.add(id(cause))
            link = cause
        return error

    def _clean(self, error: BaseException) -> bool:
        """Change the texts of one error; False if it still has a secret."""
        if self._is_clean(error):
            return True
        error.args = tuple(self._hide_argument(one) for one in error.args)
        if isinstance(error, OSError):
            for name in ("strerror", "filename", "filename2"):
                if isinstance(text := getattr(error, name), str):
                    setattr(error, name, self.hide(text))
        return self._is_clean(error)

    def _is_clean(self, error: BaseException) -> bool:
        return all(self.hide(text) == text for text in (str(error), *map(str, error.args)))

    def _hide_argument(self, argument: object) -> object:
        hidden = self.hide(str(argument))
        return argument if hidden == str(argument) else hidden

    @contextmanager
    def hiding(self) -> Iterator[None]:
        """Errors that leave the block have no secrets."""
        try:
            yield
        except Exception as error:
            hidden = self.hide_error(error)
            if hidden is error:
                raise
            raise hidden from None
