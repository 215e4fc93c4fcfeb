# SPDX-License-Identifier: Apache-2.0
"""The boundary of all reading: whatever path a table's metadata names, only what lies in the warehouses is opened."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

WITHIN = "storage.within"  # property: the warehouses, one per line; without it everything may be read
ALIASES = {"s3a": "s3", "s3n": "s3", "abfss": "abfs"}


class OutsideWarehouses(PermissionError):
    """A path that is not read, because it lies outside of the warehouses."""


@dataclass(frozen=True, slots=True)
class ReadBoundary:
    """Folders of this machine with all links resolved, and prefixes of other storages."""

    folders: tuple[str, ...]
    prefixes: tuple[tuple[str, str, str], ...]  # scheme, authority, path

    @staticmethod
    def of(warehouses: str) -> "ReadBoundary":
        """From the value of the property."""
        locations = [split_location(line) for line in warehouses.splitlines() if line]
        local = tuple(os.path.realpath(path) for scheme, _, path in locations if not scheme)
        return ReadBoundary(local, tuple((s, a, path.rstrip("/")) for s, a, path in locations if s))

    def check(self, location: str) -> None:
        """Raise unless the location is in a warehouse. The file itself may be a link: those are not opened."""
        scheme, authority, path = split_location(location)
        if not scheme:
            self.check_folder(path.rpartition("/")[0] or "/", location)
        else:
            check_path(path, self.paths_in(scheme, authority), location)

    def paths_in(self, scheme: str, authority: str) -> list[str]:
        """Of the warehouses in one storage."""
        return [path for *storage, path in self.prefixes if storage == [scheme, authority.lower()]]

    def check_folder(self, folder: str, location: str = "") -> None:
        """As ``check``, for a folder of this machine, with all links followed."""
        real = os.path.realpath(folder)
        if not any(is_in(real, allowed) for allowed in self.folders):
            raise outside(location or folder, real if real != folder else "")


def split_location(location: str) -> tuple[str, str, str]:
    """Scheme, authority and path; no scheme for this machine's files."""
    if location.startswith("/"):
        return "", "", location
    parts = urlsplit(location)
    if parts.scheme in ("", "file"):
        return "", "", parts.path
    return ALIASES.get(parts.scheme, parts.scheme), parts.netloc.lower(), parts.path


def check_path(path: str, folders: Sequence[str], location: str = "") -> None:
    """Object stores take dots literally, file systems do not: no sound table has them."""
    if {".", ".."} & set(path.split("/")) or not any(is_in(path, folder) for folder in folders):
        raise outside(location or path)


def is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def outside(path: str, target: str = "") -> OutsideWarehouses:
    led = f", which leads into {target}," if target else ""
    return OutsideWarehouses(
        f"{path}{led} is not read: it is outside of the warehouses, where a table's metadata may name nothing; if the "
        "table is right, add that folder as a warehouse"
    )
