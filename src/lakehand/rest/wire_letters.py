# SPDX-License-Identifier: Apache-2.0
"""Reads what Hudi writers send, the client's GET and the commit callback, into notifications. Trusts nothing in it."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote_plus

from lakehand.core.intake import Notification
from lakehand.domain.actions import Action
from lakehand.domain.errors import Invalid
from lakehand.domain.events import Event
from lakehand.rest.faces import Security

ACTIONS: Mapping[str, Action] = {
    "compact": Action.register("compaction"),
    "cluster": Action.register("clustering"),
    "clean": Action.register("clean"),
}
LONGEST_QUERY = 256 * 1024  # bytes; a thousand instants take twenty thousand
MOST_PARAMETERS = 100
MOST_KNOWN, LONGEST_KNOWN = 4096, 4096  # requests that are remembered, and their size without instants
INSTANT = b"instant="
SHOWN = 80  # characters of a wrong value that are worth keeping


class Letter(NamedTuple):
    """A request as it came in. Equal letters of one batch are read and stored once."""

    kind: str  # compact, cluster, clean, callback, or whatever was asked for
    query: bytes
    key: str = ""  # the callback's key header
    base_path: str = ""  # the callback's body, as far as it matters
    table_name: str = ""
    trouble: str = ""  # what was wrong with the body
    address: str = ""  # of the client


@dataclass(frozen=True, slots=True)
class Reading:
    notification: Notification | None
    faults: Sequence[Event] = ()
    message: str = ""


@dataclass(frozen=True, slots=True)
class Reader:
    """A writer repeats itself but for the instants, so that all the rest is read once and remembered."""

    security: Security
    engines: frozenset[str]
    _known: dict[tuple[str, bytes, bytes], Reading] = field(default_factory=dict)

    def read(self, letter: Letter) -> Reading:
        parts = around_instants(letter.query)
        if parts is None or letter.kind == "callback":
            return self.read_whole(letter)
        before, instants, after = parts
        key = (letter.kind, before, after)
        known = self._known.get(key)
        if known is None:
            known = self.read_whole(letter._replace(query=before + INSTANT + after))
            self.remember(key, known)
        if known.notification is None:
            return known
        return Reading(replace(known.notification, instants=split(instants, ",")), known.faults)

    def remember(self, key: tuple[str, bytes, bytes], reading: Reading) -> None:
        if reading.notification is None or len(key[1]) + len(key[2]) > LONGEST_KNOWN:
            return
        if len(self._known) >= MOST_KNOWN:
            self._known.clear()
        self._known[key] = reading

    def read_whole(self, letter: Letter) -> Reading:
        if len(letter.query) > LONGEST_QUERY:
            return refused("wire.too-long", too_long(letter.kind))
        query = read_query(letter.query)
        if query is None:
            return refused("wire.unreadable", f"the query of a {shown(letter.kind)} request cannot be read")
        if letter.kind == "callback":
            return self.read_callback(letter, query)
        return self.read_request(letter, query)

    def read_request(self, letter: Letter, query: Mapping[str, str]) -> Reading:
        kind = letter.kind
        if not self.security.admits_wire(query.get("token", "")):
            return unauthorized(f"a {shown(kind)} request of Hudi's client came without the right token", letter)
        if kind not in ACTIONS:
            return refused("wire.unknown-path", f"nothing is served at /v1/hoodie/service/{shown(kind)}")
        if query.get("action", "REQUEST").upper() != "REQUEST":
            return refused("wire.unknown-action", f"a {kind} request asks for {shown(query['action'])}, not REQUEST")
        faults = [*self.engine_fault(query)]
        register = wanted_actions(query.get("actions", ""), faults)
        notification = Notification(
            source="wire",
            location=query.get("basepath", ""),
            action=ACTIONS[kind],
            instants=split(query.get("instant", ""), ","),
            db_name=query.get("db_name", ""),
            table_name=query.get("table_name", ""),
            owner=query.get("username", "") or "default",
            queue=query.get("queue", "") or "default",
            parameters={name: query[name] for name in ("resource", "parallelism") if query.get(name)},
            extra_parameters=extra_parameters(query.get("extra_params", "")),
            register=register,
        )
        return Reading(notification, faults)

    def read_callback(self, letter: Letter, query: Mapping[str, str]) -> Reading:
        if not self.security.admits_callback(letter.key, query.get("token", "")):
            return unauthorized("a commit callback came without the right key", letter)
        faults = [fault("wire.callback-body", letter.trouble)] if letter.trouble else []
        if not letter.base_path:
            trouble = letter.trouble or "the body of a commit callback names no basePath"
            return Reading(None, faults or [fault("wire.callback-body", trouble)], trouble)
        notification = Notification(
            source="callback",
            location=letter.base_path,
            db_name=query.get("db_name", ""),
            table_name=letter.table_name,
            owner=query.get("owner", "") or "default",
            queue=query.get("queue", "") or "default",
            register=wanted_actions(query.get("actions", ""), faults),
        )
        return Reading(notification, faults)

    def engine_fault(self, query: Mapping[str, str]) -> Sequence[Event]:
        engine = query.get("execution_engine", "").lower()
        if not engine or engine in self.engines:
            return ()
        return [
            fault("wire.unknown-engine", f"the engine {shown(engine)} is not known here; the service's own is used")
        ]


def around_instants(query: bytes) -> tuple[bytes, str, bytes] | None:
    """What comes before the list of instants, the list, and what comes after it; None where there is no list."""
    at = query.find(INSTANT)
    if at < 0 or (at > 0 and query[at - 1] != 0x26) or len(query) > LONGEST_QUERY:
        return None
    start = at + len(INSTANT)
    end = query.find(b"&", start)
    end = len(query) if end < 0 else end
    return query[:at], unquote_plus(query[start:end].decode("ascii", "replace")), query[end:]


def read_query(query: bytes) -> Mapping[str, str] | None:
    """Form-encoded parameters, the first of each name; a bare name counts as empty."""
    if len(query) > LONGEST_QUERY:
        return None
    try:
        pairs = parse_qsl(query.decode("ascii", "replace"), keep_blank_values=True, max_num_fields=MOST_PARAMETERS)
    except ValueError:
        return None
    return dict(reversed(pairs))


def too_long(kind: str) -> str:
    return (
        f"the query of a {shown(kind)} request is longer than {LONGEST_QUERY} bytes: "
        "nothing of it is stored, and the table is looked at later by its heartbeat timeout"
    )


def token_of(query: bytes) -> str:
    return (read_query(query) or {}).get("token", "")


def split(text: str, separator: str) -> list[str]:
    return [part for part in (part.strip() for part in text.split(separator)) if part]


def extra_parameters(text: str) -> Mapping[str, str]:
    """``a=1;b=2``; which of them are taken is decided at the intake."""
    pairs = (part.partition("=") for part in split(text, ";")[:MOST_PARAMETERS])
    return {name.strip(): value.strip() for name, _, value in pairs}


def wanted_actions(text: str, faults: list[Event]) -> frozenset[Action]:
    wanted = set()
    for name in split(text, ",")[:MOST_PARAMETERS]:
        action = known_action(name)
        if action:
            wanted.add(action)
        else:
            faults.append(fault("wire.unknown-action", f"nobody knows the action {shown(name)}"))
    return frozenset(wanted)


def known_action(name: str) -> Action | None:
    if name.lower() in ACTIONS:
        return ACTIONS[name.lower()]
    try:
        action = Action(name)
    except Invalid:
        return None
    return action if action.is_registered else None


def unauthorized(message: str, letter: Letter) -> Reading:
    """The writer is told what is wrong; from where it came is for the operator."""
    return Reading(None, [fault("wire.unauthorized", f"{message}, from {letter.address}")], message)


def refused(kind: str, message: str) -> Reading:
    return Reading(None, [fault(kind, message)], message)


def fault(kind: str, message: str) -> Event:
    """An event that repeats without growing: equal ones are counted in one row."""
    return Event(kind=kind, message=message, fingerprint=hashlib.sha256(f"{kind}\n{message}".encode()).hexdigest()[:40])


def shown(text: str) -> str:
    """A wrong value in a form that every database and terminal can take."""
    return ascii(text[:SHOWN])
