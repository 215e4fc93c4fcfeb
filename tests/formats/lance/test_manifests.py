# SPDX-License-Identifier: Apache-2.0
"""Versions, by the names of their manifests."""

from pathlib import Path

import pytest

from lakehand.formats.lance.manifests import history, newest, version_of
from lakehand.spi import Invalid
from lakehand.storage import LocalStorage
from tests import lance_tables
from tests.kit.sentences import Sentences


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("18446744073709551614.manifest", 1),
        ("18446744073709550614.manifest", 1001),
        ("1.manifest", 1),
        ("1001.manifest", 1001),
        ("d9223372036854775809.manifest", None),
        ("latest_version_hint.json", None),
        ("1.manifest.tmp", None),
        (".manifest", None),
    ],
)
def test_both_namings_are_understood_and_everything_else_is_no_version(name: str, version: int | None) -> None:
    assert version_of(name) == version


@pytest.mark.parametrize("is_new", [True, False])
def test_the_newest_version_of_a_real_table_is_found_in_both_namings(is_new: bool, tmp_path: Path) -> None:
    path = lance_tables.make_table(tmp_path / "t", fragments=12, enable_v2_manifest_paths=is_new)
    assert (path / "_versions" / "12.manifest").exists() is not is_new

    assert newest(LocalStorage(), str(path), "t")[0] == lance_tables.latest(path) == 12
    assert [version.number for version in history(LocalStorage(), str(path))] == list(range(1, 13))


def test_a_recreated_table_with_as_many_versions_has_another_change_token(tmp_path: Path) -> None:
    first = lance_tables.make_table(tmp_path / "a", fragments=2)
    second = lance_tables.make_table(tmp_path / "b", fragments=2, each=11)

    assert newest(LocalStorage(), str(first), "a")[2] != newest(LocalStorage(), str(second), "b")[2]


def test_a_folder_without_manifests_is_no_table(tmp_path: Path, sentences: Sentences) -> None:
    (tmp_path / "_versions").mkdir()
    with pytest.raises(Invalid) as refused:
        newest(LocalStorage(), str(tmp_path), "here")
    sentences.check("no manifest", str(refused.value), location="here")
