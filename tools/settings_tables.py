# SPDX-License-Identifier: Apache-2.0
"""Rewrites the settings tables in docs/ from the setting rows of each format: python -m tools.settings_tables."""

import re
from pathlib import Path

from lakehand.formats.delta import DeltaProcessFactory
from lakehand.formats.hudi import HudiProcessFactory
from lakehand.formats.iceberg import IcebergProcessFactory
from lakehand.formats.lance import LanceProcessFactory
from lakehand.formats.paimon import PaimonProcessFactory
from lakehand.spi.kit import FormatFactory, markdown_table

DOCS = Path(__file__).parents[1] / "docs"
FACTORIES: dict[str, type[FormatFactory]] = {  # type: ignore[type-arg]
    "delta": DeltaProcessFactory,
    "hudi": HudiProcessFactory,
    "iceberg": IcebergProcessFactory,
    "lance": LanceProcessFactory,
    "paimon": PaimonProcessFactory,
}
END = "<!-- end of settings -->"


def with_table(format: str, page: str) -> str:
    """The page with its table made anew; fails when the markers are not there."""
    start = f"<!-- settings of {format}: made by python -m tools.settings_tables -->"
    table = markdown_table(FACTORIES[format]().settings.rows)
    made, count = re.subn(
        f"{re.escape(start)}.*?{re.escape(END)}", lambda _: f"{start}\n{table}\n{END}", page, flags=re.DOTALL
    )
    if count != 1:
        raise SystemExit(f"docs/{format}.md needs one {start} and one {END}")
    return made


def main() -> None:
    for name in FACTORIES:
        page = DOCS / f"{name}.md"
        page.write_text(with_table(name, page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
