# SPDX-License-Identifier: Apache-2.0
"""Locations: one spelling for each, and what is never left: the warehouses, and the boundary of an operation.

A boundary is the table's folder and the extra prefixes whose files the operation's job may touch.
"""

import hashlib
import posixpath
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from urllib.parse import quote

from lakehand.domain.errors import LocationRefused
from lakehand.domain.processes import Json

LONGEST = 1024
LONGEST_KEY = 700  # characters of a path's key: what an index of every database can hold
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
_HIDDEN = re.compile(r"%(2e|2f|5c|00)", re.IGNORECASE)
# https://BUCKET.s3.REGION.amazonaws.com/KEY and https://s3.REGION.amazonaws.com/BUCKET/KEY
_S3_HOST = re.compile(r"(?:(?P<bucket>[a-z0-9.-]+)\.)?s3(?:[.-][a-z0-9-]+){0,2}\.amazonaws\.com(?:\.cn)?")
_ALIASES = {"s3a": "s3", "s3n": "s3", "abfss": "abfs", "wasbs": "wasb"}
BOUNDARY = "boundary"  # of a process; set by the dispatcher, never by a request or a factory
EXTRA_LOCATIONS = "extra-locations"  # property of a table: further prefixes of its files, separated by commas


def normalise(text: str) -> str:
    """The one spelling of a location: ``/a/b`` on this machine, ``scheme://authority/path`` elsewhere."""
    location = spell(text)
    if is_root(location):
        raise LocationRefused(f"{text!r} is a root: a table is a folder")
    return location


def normalise_prefix(text: str) -> str:
    """The one spelling of a warehouse: a folder, or a whole bucket or file system, but not this whole machine."""
    prefix = spell(text)
    if prefix == "/":
        raise LocationRefused(f"{text!r} is everything on this machine: name the folder that holds the tables")
    return prefix


def spell(text: str) -> str:
    refuse_unreadable(text)
    scheme, rest = split_scheme(text)
    if scheme in ("", "file"):
        authority, path = split_authority(rest)
        if authority not in ("", "localhost"):
            raise LocationRefused(f"{text!r} names the host {authority!r}: a file location has none")
        return clean_path(path, text)
    authority, path = split_authority(rest)
    if scheme in ("http", "https"):
        authority, path = split_s3_address(authority, path, text)
        scheme = "s3"
    if not authority and scheme != "hdfs":
        raise LocationRefused(f"{text!r} has no bucket or host after {scheme}://")
    cleaned = clean_path(path or "/", text)
    is_bucket = bool(authority) and cleaned == "/"
    return f"{scheme}://{authority.lower()}{'' if is_bucket else cleaned}"


def is_root(location: str) -> bool:
    """True for ``/``, ``s3://bucket`` and ``hdfs:///``."""
    return not split_authority(split_scheme(location)[1])[1].strip("/")


def location_key(location: str) -> str:
    """The identity of a normalised location: the same for all spellings of one storage, short enough for an index."""
    return hashlib.sha256(same_scheme(location).encode()).hexdigest()


def same_scheme(location: str) -> str:
    """A normalised location with one scheme for all spellings of one storage."""
    scheme, rest = split_scheme(location)
    return f"{_ALIASES.get(scheme, scheme)}:{rest}" if scheme else location


def path_key(location: str) -> str:
    """A normalised location for an index: what lies in a folder begins with the folder's key and a slash.

    ASCII, which every database orders alike. Locations that differ only far behind have the same key.
    """
    return quote(same_scheme(location), safe="/:")[:LONGEST_KEY]


def folders_above(location: str) -> Sequence[str]:
    """The folders that a normalised location lies in, the nearest first, without the root."""
    found = []
    while not is_root(location := location.rpartition("/")[0]):
        found.append(location)
    return found


def overlap(one: str, other: str) -> bool:
    """True if two normalised locations are the same folder, or one lies in the other."""
    one, other = same_scheme(one), same_scheme(other)
    return is_under(one, other) or is_under(other, one)


def storage_scheme(location: str) -> str:
    """The kind of storage: ``s3`` for all its spellings, empty for this machine's disks."""
    scheme = split_scheme(location)[0]
    return "" if scheme == "file" else _ALIASES.get(scheme, scheme)


def refuse_unreadable(text: str) -> None:
    if not text or len(text) > LONGEST:
        raise LocationRefused(f"a location has 1 to {LONGEST} characters; this one has {len(text)}")
    if not text.isprintable() or "\\" in text or text != text.strip():
        raise LocationRefused(f"{text!r} has a control character, a backslash or a space at its edge")
    if _HIDDEN.search(text):
        raise LocationRefused(f"{text!r} hides a dot, slash or zero byte behind a percent sign")


def split_scheme(text: str) -> tuple[str, str]:
    found = _SCHEME.fullmatch(text)
    return (found[1].lower(), found[2]) if found else ("", text)


def split_authority(rest: str) -> tuple[str, str]:
    if not rest.startswith("//") or rest.startswith("///"):
        return "", rest
    authority, slash, path = rest[2:].partition("/")
    return authority, slash + path


def split_s3_address(host: str, path: str, text: str) -> tuple[str, str]:
    """Bucket and path of an address at AWS: the bucket is in the host's name, or begins the path."""
    found = _S3_HOST.fullmatch(host.lower())
    if found is None:
        raise LocationRefused(f"{text!r} is not an address of a bucket at AWS: name the table as s3://BUCKET/PATH")
    if found["bucket"]:
        return found["bucket"], path
    bucket, _, key = path.lstrip("/").partition("/")
    return bucket, f"/{key}"


def clean_path(path: str, text: str) -> str:
    if not path.startswith("/"):
        raise LocationRefused(f"{text!r} is not absolute: give the whole path or URI")
    if ".." in path.split("/"):
        raise LocationRefused(f"{text!r} climbs with '..': give the real path")
    return "/" + posixpath.normpath(path).lstrip("/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Warehouses:
    """The prefixes of the tables that this service may serve; nothing outside of them is read or written."""

    prefixes: tuple[str, ...]

    def admit(self, location: str) -> None:
        """Raise unless the normalised location lies under one of the prefixes."""
        if not any(is_under(location, prefix) for prefix in self.prefixes):
            allowed = ", ".join(self.prefixes) or "none configured"
            raise LocationRefused(f"{location!r} is outside of the warehouses ({allowed}): add it with --warehouse")

    def spell(self, text: str) -> str:
        """The one spelling of a location, with the scheme of its warehouse: a table has one, however it is named."""
        return self.respell(normalise(text))

    def respell(self, location: str) -> str:
        """A normalised location with the scheme of the warehouse above it: ``s3://`` and ``s3a://`` are one storage."""
        scheme, rest = split_scheme(location)
        if not scheme:
            return location
        for prefix in self.prefixes:
            own = split_scheme(prefix)[0]
            if own != scheme and _ALIASES.get(own, own) == _ALIASES.get(scheme, scheme):
                spelled = f"{own}:{rest}"
                if is_under(spelled, prefix):
                    return spelled
        return location


def is_under(location: str, prefix: str) -> bool:
    """Both normalised. A prefix that is a root may end in a slash: ``hdfs:///`` holds no ``hdfs://host/...``."""
    prefix = prefix.removesuffix("/")
    return location == prefix or location.startswith(prefix + "/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Boundary:
    """Where a table's location led when its operation was admitted. A job that finds another folder there stops."""

    location: str  # as the table is registered
    real: str  # where that leads, with all links followed
    warehouses: tuple[str, ...]  # real, too
    extra: tuple[str, ...] = ()  # real; further prefixes that an operator named for this table
    folder: str = ""  # device and inode of the table's folder; empty where the storage has none

    def as_parameter(self) -> dict[str, Json]:
        return {**asdict(self), "warehouses": list(self.warehouses), "extra": list(self.extra)}


def extra_locations(text: str) -> Sequence[str]:
    """The prefixes in the value of the property."""
    return [part.strip() for part in text.split(",") if part.strip()]
