# SPDX-License-Identifier: Apache-2.0
"""Parses what Hudi writers send, the client's GET and the commit callback, into notifications. Trusts none of it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote_plus

from lakehand.api.operations import MOST_PARALLEL, read_resource
from lakehand.domain.actions import Action
from lakehand.domain.errors import Invalid
from lakehand.domain.events import Event
from lakehand.domain.notifications import Notification, RefusedNotification
from lakehand.rest.context import Security

ACTIONS: Mapping[str, Action] = {
    "compact": Action.register("compaction"),
    "cluster": Action.register("clustering"),
    "clean": Action.register("clean"),
}
LONGEST_QUERY = 256 * 1024  # bytes; a thousand instants take twenty thousand
MOST_PARAMETERS = 100
MOST_CACHED, LONGEST_CACHED = 4096, 4096  # parsed requests that are cached, and their size without instants
INSTANT = b"instant="
SHOWN = 80  # characters of a wrong value that are shown


class WireRequest(NamedTuple):
    """A request as it came in."""

    kind: str  # compact, cluster, clean, callback, or whatever the path ends in
    query: bytes
    key: str = ""  # the callback's key header
    base_path: str = ""  # from the callback's body
    table_name: str = ""
    problem: str = ""  # what was wrong with the body
    address: str = ""  # of the client


@dataclass(frozen=True, slots=True)
class RequestParser:
    """Writers repeat their requests with other instants, so everything else is parsed once and cached."""

    security: Security
    engines: frozenset[str]
    _cache: dict[tuple[str, bytes, bytes], Notification] = field(default_factory=dict)

    def parse(self, request: WireRequest) -> Notification | RefusedNotification:
        parts = around_instants(request.query)
        if parts is None or request.kind == "callback":
            return self.parse_whole(request)
        before, instants, after = parts
        key = (request.kind, before, after)
        known = self._cache.get(key)
        if known is None:
            parsed = self.parse_whole(request._replace(query=before + INSTANT + after))
            if isinstance(parsed, RefusedNotification):
                return parsed
            known = parsed
            self.remember(key, known)
        return replace(known, instants=split(instants, ","))

    def remember(self, key: tuple[str, bytes, bytes], notification: Notification) -> None:
        if len(key[1]) + len(key[2]) > LONGEST_CACHED:
            return
        if len(self._cache) >= MOST_CACHED:
            self._cache.clear()
        self._cache[key] = notification

    def parse_whole(self, request: WireRequest) -> Notification | RefusedNotification:
        if len(request.query) > LONGEST_QUERY:
            message = f"the query of a {quote(request.kind)} request is longer than {LONGEST_QUERY} bytes: "
            message += "nothing of it is stored, and the table is probed later, at its heartbeat timeout"
            return refused("wire.too-long", message)
        query = parse_query(request.query)
        if query is None:
            return refused("wire.unreadable", f"the query of a {quote(request.kind)} request cannot be read")
        if request.kind == "callback":
            return self.parse_callback(request, query)
        return self.parse_request(request, query)

    def parse_request(self, request: WireRequest, query: Mapping[str, str]) -> Notification | RefusedNotification:
        kind = request.kind
        if not self.security.admits_wire(query.get("token", "")):
            return unauthorized(f"a {quote(kind)} request of Hudi's client came without the right token", request)
        if kind not in ACTIONS:
            return refused("wire.unknown-path", f"nothing is served at /v1/hoodie/service/{quote(kind)}")
        if query.get("action", "REQUEST").upper() != "REQUEST":
            return refused("wire.unknown-action", f"a {kind} request asks for {quote(query['action'])}, not REQUEST")
        warnings = []
        engine = wanted_engine(query.get("execution_engine", ""))
        if engine and engine not in self.engines:
            message = f"the engine {quote(engine)} is not known here; the service's own is used"
            warnings.append(Event.counted("wire.unknown-engine", message))
            engine = None
        return Notification(
            source="wire",
            location=query.get("basepath", ""),
            action=ACTIONS[kind],
            instants=split(query.get("instant", ""), ","),
            db_name=query.get("db_name", ""),
            table_name=query.get("table_name", ""),
            owner=query.get("username", "") or "default",
            queue=query.get("queue", "") or "default",
            parameters=deployed(query, warnings),
            extra_parameters=extra_parameters(query.get("extra_params", "")),
            engine=engine,
            retry_on_error={"false": False, "true": True}.get(query.get("retry_on_error", "").lower()),
            register=parse_actions(query.get("actions", ""), warnings),
            warnings=warnings,
        )

    def parse_callback(self, request: WireRequest, query: Mapping[str, str]) -> Notification | RefusedNotification:
        if not self.security.admits_callback(request.key, query.get("token", "")):
            return unauthorized("a commit callback came without the right key", request)
        if not request.base_path:
            problem = request.problem or "the body of a commit callback names no basePath"
            return refused("wire.callback-body", problem)
        warnings = [Event.counted("wire.callback-body", request.problem)] if request.problem else []
        return Notification(
            source="callback",
            location=request.base_path,
            db_name=query.get("db_name", ""),
            table_name=request.table_name,
            owner=query.get("owner", "") or "default",
            queue=query.get("queue", "") or "default",
            register=parse_actions(query.get("actions", ""), warnings),
            warnings=warnings,
        )


def wanted_engine(name: str) -> str | None:
    """ "Spark", what RFC-43 and Hudi's client say by default, is each of our engines: the service chooses one."""
    return name.lower() if name.lower() not in ("", "spark") else None


def around_instants(query: bytes) -> tuple[bytes, str, bytes] | None:
    """The query before the list of instants, the list, and the query after it; None without such a list."""
    at = query.find(INSTANT)
    if at < 0 or (at > 0 and query[at - 1] != 0x26) or len(query) > LONGEST_QUERY:
        return None
    start = at + len(INSTANT)
    end = query.find(b"&", start)
    end = len(query) if end < 0 else end
    return query[:at], unquote_plus(query[start:end].decode("ascii", "replace")), query[end:]


def parse_query(query: bytes) -> Mapping[str, str] | None:
    """Form-encoded parameters, the first of each name; a bare name counts as empty."""
    if len(query) > LONGEST_QUERY:
        return None
    try:
        pairs = parse_qsl(query.decode("ascii", "replace"), keep_blank_values=True, max_num_fields=MOST_PARAMETERS)
    except ValueError:
        return None
    return dict(reversed(pairs))


def token_of(query: bytes) -> str:
    return (parse_query(query) or {}).get("token", "")


def split(text: str, separator: str) -> list[str]:
    return [part for part in (part.strip() for part in text.split(separator)) if part]


def extra_parameters(text: str) -> Mapping[str, str]:
    """``a=1;b=2``; the intake takes those on the allow-list."""
    pairs = (part.partition("=") for part in split(text, ";")[:MOST_PARAMETERS])
    return {name.strip(): value.strip() for name, _, value in pairs}


def read_parallelism(text: str) -> str:
    """A number, as text: so RFC and client have it."""
    if not re.fullmatch(r"[0-9]{1,7}", text) or not 1 <= int(text) <= MOST_PARALLEL:
        raise ValueError(f"{text[:40]!a} is not a parallelism: a number from 1 to {MOST_PARALLEL}")
    return text


def deployed(query: Mapping[str, str], warnings: list[Event]) -> Mapping[str, str]:
    """Resource and parallelism. What cannot be read is left out: an engine could not size its work by it."""
    found: dict[str, str] = {}
    for name, read in (("resource", read_resource), ("parallelism", read_parallelism)):
        try:
            found |= {name: read(query[name])} if query.get(name) else {}
        except ValueError as error:
            warnings.append(Event.counted("wire.unreadable-size", f"{error}; the {name} is left out"))
    return found


def parse_actions(text: str, warnings: list[Event]) -> frozenset[Action]:
    """The known actions among these names; the others become warnings."""
    found = {name: known_action(name) for name in split(text, ",")[:MOST_PARAMETERS]}
    warnings += [
        Event.counted("wire.unknown-action", f"nobody knows the action {quote(name)}")
        for name, action in found.items()
        if action is None
    ]
    return frozenset(action for action in found.values() if action)


def known_action(name: str) -> Action | None:
    if name.lower() in ACTIONS:
        return ACTIONS[name.lower()]
    try:
        action = Action(name)
    except Invalid:
        return None
    return action if action.is_registered else None


def unauthorized(message: str, request: WireRequest) -> RefusedNotification:
    """The writer is told what is wrong; the operator also sees the address."""
    return RefusedNotification(message, Event.counted("wire.unauthorized", f"{message}, from {request.address}"))


def refused(kind: str, message: str) -> RefusedNotification:
    return RefusedNotification(message, Event.counted(kind, message))


def quote(text: str) -> str:
    """A wrong value in ASCII, which every database and terminal can show."""
    return ascii(text[:SHOWN])
