# SPDX-License-Identifier: Apache-2.0
"""Jars are fetched once, checked, and published whole: from a server of the test, or by the real Ivy from a folder."""

import hashlib
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Barrier, Thread, get_ident

import psutil
import pytest

from lakehand.domain.errors import NotFound
from lakehand.engines.spark import jars
from lakehand.engines.spark.jars import (
    RECORD,
    JarRefused,
    JarSums,
    JarsUnavailable,
    databases_of,
    default_repository,
    ensure,
    ensure_jars,
    jars_of,
    silent,
    spark_home,
)
from lakehand.engines.spark.java import Java, java_home
from lakehand.engines.spark.known_jars import Jar
from lakehand.spi import Catalog, Format
from tests.kit.polling import wait_for

CONTENT = b"not really a jar" * 1000
TINY = Jar(
    organisation="org.example",
    module="tiny",
    version="1.0",
    size=len(CONTENT),
    sha256=hashlib.sha256(CONTENT).hexdigest(),
)
OTHER = replace(TINY, module="other")
NO_JAVA = Java(home=Path("/nonexistent"), version=17, origin="test")
IVY_FILE = """<ivy-module version="2.0"><info organisation="org.example" module="tiny" revision="1.0"/>
<publications><artifact name="tiny" type="jar" ext="jar"/></publications></ivy-module>"""

Listed = Callable[..., None]


@dataclass
class Repository:
    """A server of jars. It drops the connection after ``cut`` bytes of an answer, once."""

    address: str = ""
    missing: frozenset[str] = frozenset()
    content: bytes = CONTENT
    cut: int | None = None
    knows_ranges: bool = True
    requests: list[tuple[str, str | None]] = field(default_factory=list)
    together: Barrier | None = None  # answers wait here for each other

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        name, asked = handler.path.rpartition("/")[2], handler.headers["Range"]
        self.requests.append((handler.path, asked))
        if self.together:
            self.together.wait(timeout=30)
        if name in self.missing:
            handler.send_error(404)
            return
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked and self.knows_ranges else 0
        handler.send_response(206 if start else 200)
        handler.send_header("Content-Length", str(len(self.content) - start))
        handler.end_headers()
        end, self.cut = self.cut, None
        handler.wfile.write(self.content[start:end])


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    """In the place of Ivy's default repository."""
    repository = Repository()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            repository.answer(self)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        repository.address = f"http://127.0.0.1:{listening.server_port}"
        monkeypatch.setattr(jars, "default_repository", lambda ivy: repository.address)
        yield repository
        listening.shutdown()
        thread.join()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("LAKEHAND_JARS", str(folder))
    return folder


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> Listed:
    return lambda *known: monkeypatch.setattr(jars, "JARS", {jars.spark_line(): {"tiny": known}})


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where Ivy looks before it asks the network; nothing can be downloaded without it."""
    monkeypatch.setattr(jars, "default_repository", lambda ivy: None)
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
    assert sorted(file.name for file in cache.iterdir()) == [".lock", RECORD, "tiny-1.0.jar"]


@pytest.mark.spark
def test_a_wrong_sum_is_refused_and_nothing_is_left(cache: Path, listed: Listed, repository: Path) -> None:
    listed(replace(TINY, sha256="0" * 64))

    with pytest.raises(JarRefused, match="not kept"):
        ensure_jars(["tiny"], java=java_home())

    assert not list(cache.glob("*.jar"))
    assert not list(cache.glob(".*tiny*"))


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


def test_jars_are_downloaded_at_once_and_without_java(cache: Path, listed: Listed, server: Repository) -> None:
    listed(TINY, OTHER)
    server.together = Barrier(2)
    seen: list[tuple[str, int, int]] = []

    found = ensure_jars(["tiny"], java=NO_JAVA, progress=lambda *step: seen.append(step))

    assert [file.read_bytes() for file in found] == [CONTENT, CONTENT]
    assert sorted(path for path, _ in server.requests) == [
        "/org/example/other/1.0/other-1.0.jar",
        "/org/example/tiny/1.0/tiny-1.0.jar",
    ]
    assert seen[-1] == ("2 jars", 2 * TINY.size, 2 * TINY.size)
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)


def test_a_jar_that_is_wanted_twice_is_downloaded_once(cache: Path, server: Repository) -> None:
    assert ensure([TINY, TINY], cache=None, java=NO_JAVA, progress=silent, sums=None) == [cache / "tiny-1.0.jar"] * 2
    assert len(server.requests) == 1


@pytest.mark.parametrize("knows_ranges", [True, False])
def test_a_download_that_broke_off_goes_on_where_it_stopped(
    cache: Path, listed: Listed, server: Repository, knows_ranges: bool
) -> None:
    listed(TINY)
    cache.mkdir()
    (cache / ".tiny-1.0.jar.part").write_bytes(CONTENT[:100])  # left by a process that was killed
    server.cut, server.knows_ranges = 5000, knows_ranges

    [file] = ensure_jars(["tiny"], java=NO_JAVA)

    assert file.read_bytes() == CONTENT
    assert [asked for _, asked in server.requests] == ["bytes=100-", "bytes=5000-"]
    assert not list(cache.glob("*.part"))


def test_one_jar_that_cannot_be_had_does_not_stop_the_others(cache: Path, listed: Listed, server: Repository) -> None:
    listed(replace(TINY, size=TINY.size + 1), OTHER)
    server.missing = frozenset({"tiny-1.0.jar"})

    with pytest.raises(FileNotFoundError, match="nonexistent"):  # Ivy is tried
        ensure_jars(["tiny"], java=NO_JAVA)

    assert (cache / "other-1.0.jar").read_bytes() == CONTENT


@pytest.mark.spark
def test_what_a_repository_has_changed_is_asked_of_ivy_instead(
    cache: Path, listed: Listed, repository: Path, server: Repository
) -> None:
    listed(TINY)
    server.content = CONTENT[:-1] + b"!"

    [file] = ensure_jars(["tiny"], java=java_home())

    assert file.read_bytes() == CONTENT


def test_ivy_ends_when_the_download_is_stopped(cache: Path, listed: Listed, server: Repository, tmp_path: Path) -> None:
    listed(TINY)
    server.missing = frozenset({"tiny-1.0.jar"})
    program = tmp_path / "java" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\necho $$ > "{tmp_path}/pid"\nexec sleep 600\n')
    program.chmod(0o755)

    def stop_when_it_runs(*_: object) -> None:
        if (tmp_path / "pid").exists() and (tmp_path / "pid").read_text():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ensure_jars(["tiny"], java=replace(NO_JAVA, home=tmp_path / "java"), progress=stop_when_it_runs)

    pid = int((tmp_path / "pid").read_text())
    wait_for(lambda: not psutil.pid_exists(pid), f"process {pid} to end")


def test_the_address_of_ivys_default_repository_is_read_from_its_jar() -> None:
    [ivy] = (spark_home() / "jars").glob("ivy-*.jar")

    address = default_repository(ivy)

    assert address
    assert address.startswith("https://")
    assert not address.endswith("/")


def test_what_is_there_is_not_fetched_again(cache: Path, listed: Listed) -> None:
    listed(TINY)
    cache.mkdir()
    (cache / "tiny-1.0.jar").write_bytes(CONTENT)

    assert ensure_jars(["tiny"], java=NO_JAVA) == [cache / "tiny-1.0.jar"]


def test_a_cut_off_file_is_not_taken_for_the_jar(cache: Path, listed: Listed, server: Repository) -> None:
    listed(TINY)
    cache.mkdir()
    (cache / "tiny-1.0.jar").write_bytes(CONTENT[:100])

    [file] = ensure_jars(["tiny"], java=NO_JAVA)

    assert file.read_bytes() == CONTENT


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
    for sums in (None, JarSums(record)):
        ensure_jars(["tiny"], java=NO_JAVA, sums=sums)
    file.write_bytes(CONTENT[:-1] + b"!")

    for sums in (None, JarSums(), JarSums(record)):
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


def test_a_jar_is_read_once_for_all_homes_of_a_user(
    cache: Path, listed: Listed, server: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed(TINY)
    ensure_jars(["tiny"], java=NO_JAVA)
    monkeypatch.setattr(jars, "sha256_of", lambda file: pytest.fail(f"{file} is read again"))

    for home in ("one", "two"):
        assert ensure_jars(["tiny"], cache=tmp_path / home, java=NO_JAVA) == [tmp_path / home / "tiny-1.0.jar"]
    assert (cache / RECORD).stat().st_mode & 0o077 == 0


def test_a_jar_that_others_may_write_is_noticed_although_its_time_is_set_back(cache: Path, listed: Listed) -> None:
    listed(TINY)
    cache.mkdir()
    file = cache / "tiny-1.0.jar"
    file.write_bytes(CONTENT)
    file.chmod(0o664)
    ensure_jars(["tiny"], java=NO_JAVA)
    was = file.stat()
    file.write_bytes(CONTENT[:-1] + b"!")
    os.utime(file, ns=(was.st_atime_ns, was.st_mtime_ns))

    with pytest.raises(JarRefused, match="it was changed"):
        ensure_jars(["tiny"], java=NO_JAVA)


def test_nothing_is_remembered_where_others_may_write(cache: Path, listed: Listed) -> None:
    listed(TINY)
    cache.mkdir()
    (cache / "tiny-1.0.jar").write_bytes(CONTENT)
    cache.chmod(0o775)

    ensure_jars(["tiny"], java=NO_JAVA)

    assert [file.name for file in cache.iterdir()] == ["tiny-1.0.jar"]


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
