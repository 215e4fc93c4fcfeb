# SPDX-License-Identifier: Apache-2.0
"""hoodie.properties: a table's own description of itself, in Java's properties format."""

import re
from collections.abc import Mapping

from lakehand.spi import Invalid
from lakehand.storage import SMALL, Storage

FOLDER = ".hoodie"
TIMELINE = "timeline"  # the folder of the timeline within it, from table version 8 on
FILE = "hoodie.properties"
BACKUP = "hoodie.properties.backup"  # what a writer leaves while it replaces the file
METASERVER = "hoodie.metaserver.enabled"
IN_METASERVER = (
    "Hudi's metaserver keeps the timeline, which this service does not read. Have the table's writers run its "
    "services, or keep its timeline in the table"
)
_PAIR = re.compile(r"((?:\\.|[^\\=:\s])+)\s*[=:]?\s*(.*)", re.DOTALL)
_CONTINUED = re.compile(r"(?<!\\)((?:\\\\)*)\\\n[ \t]*")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_SPECIAL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def read_properties(storage: Storage, root: str, location: str) -> dict[str, str]:
    """The table's properties. Raises Invalid when this is not a Hudi table, OSError when the storage fails."""
    for name in (FILE, BACKUP):
        try:
            found = parse(storage.read(f"{root}/{FOLDER}/{name}", limit=SMALL).decode())
        except (FileNotFoundError, NotADirectoryError):
            continue
        except UnicodeDecodeError as error:
            raise Invalid(f"{location}: {FOLDER}/{name} is not text: {error}") from error
        if found.get(METASERVER, "").lower() == "true":
            raise Invalid(f"{location}: {METASERVER} is true in {FOLDER}/{name}: {IN_METASERVER}")
        if "hoodie.table.name" in found:
            return found
    raise Invalid(f"{location} is not a Hudi table: {FOLDER}/{FILE} is missing or has no hoodie.table.name")


def parse(text: str) -> dict[str, str]:
    lines = (line.lstrip() for line in _CONTINUED.sub(r"\1", text).splitlines())
    pairs = (_PAIR.fullmatch(line) for line in lines if line and line[0] not in "#!")
    return {unescape(pair[1]): unescape(pair[2]) for pair in pairs if pair}


def unescape(text: str) -> str:
    return _ESCAPE.sub(lambda found: character(found[1]), text) if "\\" in text else text


def character(code: str) -> str:
    return chr(int(code[1:], 16)) if len(code) == 5 else _SPECIAL.get(code, code)


def number(properties: Mapping[str, str], key: str, default: int) -> int:
    text = properties.get(key, "")
    return int(text) if text.isdigit() else default


def read_list(properties: Mapping[str, str], key: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in properties.get(key, "").split(",") if word.strip())
