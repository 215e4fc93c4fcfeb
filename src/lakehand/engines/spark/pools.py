# SPDX-License-Identifier: Apache-2.0
"""A person's file of scheduler pools, completed: without a pool ``default``, jobs of that pool would run one by one."""

from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree as ET

from lakehand.domain.errors import Invalid

FILE = "spark.scheduler.allocation.file"
DEFAULT = "default"
FAIR = {"schedulingMode": "FAIR", "weight": "1", "minShare": "0"}


def complete_pools(conf: Mapping[str, str], home: Path) -> dict[str, str]:
    """The setting of the file, if there is one. A file without ``default`` is copied to the home, with that pool."""
    if not (named := conf.get(FILE)):
        return {}
    pools = read_pools(named)
    if any(pool.get("name") == DEFAULT for pool in pools.iter("pool")):
        return {FILE: named}
    added = ET.SubElement(pools, "pool", name=DEFAULT)
    for name, text in FAIR.items():
        ET.SubElement(added, name).text = text
    copy = home / "pools.xml"
    copy.write_text(ET.tostring(pools, encoding="unicode"), encoding="utf-8")
    return {FILE: f"file://{copy}"}


def read_pools(named: str) -> ET.Element:
    path = named.removeprefix("file:")
    path = path.removeprefix("//") if path.startswith("//") else path
    if ":" in path.partition("/")[0]:
        raise Invalid(f"{FILE} is {named}: only a file of this machine can be checked for its pool {DEFAULT!r}")
    try:
        return ET.fromstring(Path(path).read_text(encoding="utf-8"))  # noqa: S314 - the operator's own file
    except (OSError, ValueError, ET.ParseError) as error:
        raise Invalid(f"{FILE} is {named}, which cannot be read: {error}") from error
