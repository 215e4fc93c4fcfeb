# SPDX-License-Identifier: Apache-2.0
"""Checks the secrets of the settings at start-up, because an empty or guessable one protects nothing."""

import json
import re
from collections.abc import Collection, Iterable, Mapping

from pydantic import SecretStr

from lakehand.domain.access import RESERVED

LEAST = 16  # characters of a secret
LONGEST = 512
HOW = "use a random one, for example from: openssl rand -hex 32"
HUDI_DEFAULT_KEY = "hudi_write_commit_http_callback"  # the default of every Hudi writer
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_SECRET = re.compile(r"[!-~]+")  # what a header and a query can hold


def read_tokens(value: object) -> object:
    """A table, a JSON object, or comma-separated ``name=secret`` pairs. Errors never quote the text."""
    if not isinstance(value, str):
        return value
    if value.strip().startswith("{"):
        return read_json(value)
    return without_repeats(read_pair(number, pair) for number, pair in enumerate(value.split(","), 1) if pair.strip())


def read_json(text: str) -> object:
    try:
        return json.loads(text, object_pairs_hook=without_repeats)
    except json.JSONDecodeError:
        raise ValueError('it is not a JSON object: write {"name": "secret"}') from None


def read_pair(number: int, pair: str) -> tuple[str, str]:
    name, equals, secret = pair.partition("=")
    if not equals:
        raise ValueError(f"pair {number} has no '=': write name=secret, with commas between the pairs")
    return name.strip(), secret.strip()


def without_repeats(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, secret in pairs:
        if name in found and _NAME.fullmatch(name):
            raise ValueError(f"the name {name} appears twice")
        if name in found:
            raise ValueError("a name appears twice")
        found[name] = secret
    return found


def checked_tokens(tokens: dict[str, SecretStr]) -> dict[str, SecretStr]:
    """Raises a ValueError that names the token, never the secret."""
    if not tokens:
        raise ValueError("it names no token: leave the setting out, or give name=secret")
    for number, (name, secret) in enumerate(tokens.items(), 1):
        check_name(number, name, others=list(tokens)[: number - 1])
        check_secret(f"the secret of {name}", secret)
    owners: dict[str, str] = {}
    for name, secret in tokens.items():
        other = owners.setdefault(secret.get_secret_value(), name)
        if other != name:
            raise ValueError(f"{other} and {name} have the same secret: give each its own")
    return tokens


def check_name(number: int, name: str, others: Collection[str]) -> None:
    if not _NAME.fullmatch(name):  # not quoted, because it may be part of a secret
        raise ValueError(f"the name of token {number} may hold only letters, digits and ._@-, at most 64")
    if name.lower() in RESERVED:
        raise ValueError(f"{name} is reserved: events use it for the service itself; choose another name")
    if name.lower() in {other.lower() for other in others}:
        raise ValueError(f"the name {name} appears twice")


def check_secret(what: str, secret: SecretStr) -> None:
    text = secret.get_secret_value()
    if not text.strip():
        raise ValueError(f"{what} is empty: {HOW}")
    if not _SECRET.fullmatch(text):
        raise ValueError(f"{what} may hold only printable ASCII characters without spaces: {HOW}")
    if not LEAST <= len(text) <= LONGEST:
        raise ValueError(f"{what} must have {LEAST} to {LONGEST} characters: {HOW}")


def check_writer_secret(secret: SecretStr, tokens: Mapping[str, SecretStr], wire_token: SecretStr | None) -> None:
    """For the wire token and the callback key. Proxies log the wire token, so it must not work anywhere else."""
    check_secret("it", secret)
    if secret.get_secret_value() == HUDI_DEFAULT_KEY:
        raise ValueError(f"it is the key that every Hudi writer sends by default: {HOW}")
    for name, other in tokens.items():
        if other == secret:
            raise ValueError(f"it is the same as the token of {name}: give each its own")
    if wire_token == secret:
        raise ValueError("it is the same as wire_token: give each its own")
