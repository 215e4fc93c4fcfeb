# SPDX-License-Identifier: Apache-2.0
"""Jars are fetched once, checked, and published whole; the real Ivy works on a repository in a temporary folder."""

import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import get_ident

import pytest

from lakehand.domain.errors import NotFound
from lakehand.engines.spark import jars
from lakehand.engines.spark.jars import JarRefused, JarSums, JarsUnavailable, databases_of, ensure_jars, jars_of
from lakehand.engines.spark.java import Java, java_home
from lakehand.engines.spark.known_jars import Jar
from lakehand.spi import Catalog, Format

CONTENT = b"not really a jar" * 1000
TINY = Jar(
    organisation="org.example",
    module="tiny",
    version="1.0",
    size=len(CONTENT),
    sha256=hashlib.sha256(CONTENT).hexdigest(),
)
NO_JAVA = Java(home=Path("/nonexistent"), version=17, origin="test")
IVY_FILE = """<ivy-module version="2.0"><info organisation="org.example" module="tiny" revision="1.0"/>
<publications><artifact name="tiny" type="jar" ext="jar"/></publications></ivy-module>"""

Listed = Callable[[Jar], None]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("LAKEHAND_JARS", str(folder))
    return folder


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> Listed:
    return lambda jar: monkeypatch.setattr(jars, "JARS", {jars.spark_line(): {"tiny": (jar,)}})


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where Ivy looks before it asks the network."""
    module = tmp_path / "ivy" / "local" / "org.example" / "tiny" / "1.0"
    (module / "jars").mkdir(parents=True)
    (module / "jars" / "tiny.jar").write_bytes(CONTENT)
    (module / "ivys").mkdir()
    (module / "ivys" / "ivy.xml").write_text(IVY_FILE)
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"-Divy.default.ivy.user.dir={tmp_path / 'ivy'}")
    return module


@pytest.mark.spark
def test_a_jar_is_fetched_checked_and_published(cache: Path, listed: Listed, repository: Path) -> None:
    listed(TINY)
    seen: list[tuple[str, int, int]] = []

    [path] = ensure_jars(["tiny"], java=java_home(), progress=lambda *step: seen.append(step))

    assert path == cache / "tiny-1.0.jar"
    assert path.read_bytes() == CONTENT
    assert seen[-1] == ("tiny-1.0.jar", TINY.size, TINY.size)
    assert [file.name for file in cache.iterdir() if file.name != ".lock"] == ["tiny-1.0.jar"]


@pytest.mark.spark
def test_a_wrong_sum_is_refused_and_nothing_is_left(cache: Path, listed: Listed, repository: Path) -> None:
    listed(replace(TINY, sha256="0" * 64))

    with pytest.raises(JarRefused, match="not kept"):
        ensure_jars(["tiny"], java=java_home())

    assert [file.name for file in cache.iterdir()] == [".lock"]


@pytest.mark.spark
def test_two_at_once_download_once(cache: Path, listed: Listed, repository: Path) -> None:
    listed(TINY)
    downloaders: set[int] = set()

    def run(_: int) -> list[Path]:
        return ensure_jars(["tiny"], java=java_home(), progress=lambda *step: downloaders.add(get_ident()))

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(run, range(2))) == [[cache / "tiny-1.0.jar"]] * 2
    assert len(downloaders) == 1


@pytest.mark.spark
def test_a_jar_that_nobody_has_is_an_error_that_names_the_way_out(
    cache: Path, listed: Listed, repository: Path
) -> None:
    listed(replace(TINY, organisation="org.example.absent.lakehand"))

    with pytest.raises(JarsUnavailable, match=rf"put tiny-1.0.jar into {cache}"):
        ensure_jars(["tiny"], java=java_home())


def test_what_is_there_is_not_fetched_again(cache: Path, listed: Listed) -> None:
    listed(TINY)
    cache.mkdir()
    (cache / "tiny-1.0.jar").write_bytes(CONTENT)

    assert ensure_jars(["tiny"], java=NO_JAVA) == [cache / "tiny-1.0.jar"]


def test_a_cut_off_file_is_not_taken_for_the_jar(cache: Path, listed: Listed) -> None:
    listed(TINY)
    cache.mkdir()
    (cache / "tiny-1.0.jar").write_bytes(CONTENT[:100])

    with pytest.raises(FileNotFoundError, match="nonexistent"):
        ensure_jars(["tiny"], java=NO_JAVA)


def test_another_folder_borrows_from_the_users_cache(cache: Path, listed: Listed, tmp_path: Path) -> None:
    listed(TINY)
    cache.mkdir()
    (cache / "tiny-1.0.jar").write_bytes(CONTENT)

    [path] = ensure_jars(["tiny"], cache=tmp_path / "home" / "jars", java=NO_JAVA)

    assert path == tmp_path / "home" / "jars" / "tiny-1.0.jar"
    assert path.read_bytes() == CONTENT


def test_a_jar_that_was_changed_is_refused_although_its_size_is_right(
    cache: Path, listed: Listed, tmp_path: Path
) -> None:
    listed(TINY)
    cache.mkdir()
    file, record = cache / "tiny-1.0.jar", tmp_path / "sums.json"
    file.write_bytes(CONTENT)
    ensure_jars(["tiny"], java=NO_JAVA, sums=JarSums(record))
    file.write_bytes(CONTENT[:-1] + b"!")

    for sums in (JarSums(), JarSums(record)):
        with pytest.raises(JarRefused, match=rf"{file} has the sha256 .* delete the file"):
            ensure_jars(["tiny"], java=NO_JAVA, sums=sums)


def test_a_jar_that_is_known_is_not_read_again(
    cache: Path, listed: Listed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed(TINY)
    cache.mkdir()
    (cache / "tiny-1.0.jar").write_bytes(CONTENT)
    ensure_jars(["tiny"], java=NO_JAVA, sums=JarSums(tmp_path / "sums.json"))
    monkeypatch.setattr(jars, "sha256_of", lambda file: pytest.fail(f"{file} is read again"))

    assert ensure_jars(["tiny"], java=NO_JAVA, sums=JarSums(tmp_path / "sums.json")) == [cache / "tiny-1.0.jar"]


@pytest.mark.parametrize("text", ["", "[]", "no json"])
def test_a_record_that_cannot_be_read_is_made_anew(cache: Path, listed: Listed, tmp_path: Path, text: str) -> None:
    listed(TINY)
    cache.mkdir()
    (cache / "tiny-1.0.jar").write_bytes(CONTENT)
    record = tmp_path / "sums.json"
    record.write_text(text)

    ensure_jars(["tiny"], java=NO_JAVA, sums=JarSums(record))

    assert TINY.sha256 in record.read_text()


def test_an_unknown_format_is_named_with_the_known_ones() -> None:
    with pytest.raises(NotFound, match=r"no jars are known for sponge .*hudi"):
        ensure_jars(["sponge"])


def test_the_cache_follows_the_users_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LAKEHAND_JARS", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")

    assert jars.default_cache() == Path("/somewhere/lakehand/jars")


def test_a_jdbc_catalog_brings_its_driver_unless_somebody_names_another() -> None:
    def catalog(name: str, uri: str) -> Catalog:
        return Catalog(name=name, format=Format("iceberg"), type="jdbc", properties={"uri": uri})

    found = [
        catalog("a", "jdbc:postgresql://h/d"),
        catalog("b", "jdbc:mariadb://h/d"),
        catalog("c", "jdbc:mysql://h/d"),
    ]
    own = {"spark.jars.packages": "org.postgresql:postgresql:42.7.0"}

    assert databases_of(found, {}) == ["postgresql", "mariadb"]
    assert databases_of(found, own) == ["mariadb"]
    assert [jar.module for jar in jars_of([], databases=["mariadb"])] == ["mariadb-java-client"]
