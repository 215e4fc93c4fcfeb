# SPDX-License-Identifier: Apache-2.0
"""hoodie.properties, whole, escaped, half-replaced and missing."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehand.domain.tables import TableReference
from lakehand.formats.hudi import HudiFormat
from lakehand.formats.hudi.properties import parse
from lakehand.spi import Invalid
from tests.formats.hudi.runtime import copied

letters = st.text(alphabet="abcXYZ.019-_äß→ \\:=#!", min_size=1, max_size=20).map(str.strip).filter(bool)


def escaped(text: str) -> str:
    """As Java writes a key or value."""
    return "".join(f"\\{c}" if c in "\\:=#! " else f"\\u{ord(c):04X}" if ord(c) > 126 else c for c in text)


@given(st.dictionaries(letters, letters, max_size=5))
def test_what_java_writes_is_read_back(pairs: dict[str, str]) -> None:
    text = "".join(f"{escaped(key)}={escaped(value)}\n" for key, value in pairs.items())

    assert parse(f"#Updated at noon\n{text}") == pairs


def test_a_value_may_be_empty() -> None:
    assert parse("hoodie.database.name=\nhoodie.table.name=t\n")["hoodie.database.name"] == ""


def test_while_a_writer_replaces_the_file_its_backup_is_read(tmp_path: Path) -> None:
    table = copied("orders_v9", tmp_path)
    file = table / ".hoodie" / "hoodie.properties"
    file.rename(table / ".hoodie" / "hoodie.properties.backup")

    assert HudiFormat().inspect(TableReference(location=str(table))).version == 9
    file.write_text("#Updated at noon\n")
    assert HudiFormat().inspect(TableReference(location=str(table))).version == 9


@pytest.mark.parametrize("made", ["nothing", "folder", "file"])
def test_the_error_about_no_hudi_table_names_what_is_missing(tmp_path: Path, made: str) -> None:
    reference = tmp_path / "folder"
    if made == "folder":
        reference.mkdir()
    if made == "file":
        reference.write_text("not a folder")

    with pytest.raises(Invalid, match=r"/folder .*\.hoodie/hoodie\.properties"):
        HudiFormat().inspect(TableReference(location=str(reference)))
