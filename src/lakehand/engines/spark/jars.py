# SPDX-License-Identifier: Apache-2.0
"""The jars of each table format: downloaded once, verified, then used as local files."""

import fcntl
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from importlib.util import find_spec
from multiprocessing.pool import ThreadPool
from pathlib import Path
from subprocess import Popen

from lakehand.domain.errors import LakehandError, NotFound
from lakehand.engines.spark.jar_downloads import (
    DownloadFailed,
    Started,
    default_repository,
    fetch_directly,
    fetch_with_ivy,
    fetched_so_far,
    size_of,
)
from lakehand.engines.spark.jar_sums import JarSums, record_in
from lakehand.engines.spark.java import Java, java_home
from lakehand.engines.spark.known_jars import DRIVERS, FORMATS, JARS, STORAGE_JARS, Jar
from lakehand.spi import Catalog

Progress = Callable[[str, int, int], None]  # file name, bytes so far, bytes in all

AT_ONCE = 4  # downloads
POLL = 0.2  # seconds between two progress reports


class JarsUnavailable(LakehandError):
    """A jar could not be downloaded."""

    code = "jars-unavailable"
    retryable = True


class JarRefused(LakehandError):
    """A jar has the wrong checksum."""

    code = "jar-refused"


def silent(name: str, done: int, total: int) -> None:
    """No progress reports."""


def default_cache() -> Path:
    if chosen := os.environ.get("LAKEHAND_JARS"):
        return Path(chosen).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "lakehand" / "jars"


def spark_home() -> Path:
    """The folder of the installed pyspark, without importing it."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise NotFound("pyspark is not installed: pip install lakehand, or make setup in a clone")
    return Path(spec.origin).parent


def spark_line() -> str:
    return ".".join(version("pyspark").split(".")[:2])


def jars_of(formats: Sequence[str], schemes: Sequence[str] = (), databases: Sequence[str] = ()) -> list[Jar]:
    """Those of the formats, then what they need where tables are in object stores or in JDBC catalogs."""
    known = JARS.get(spark_line(), {})
    if unknown := [name for name in formats if name not in known]:
        raise NotFound(f"no jars are known for {unknown[0]} on Spark {spark_line()}; known: {', '.join(known)}")
    of_formats = [jar for name, jars in known.items() if name in formats for jar in jars]
    of_stores = [jar for scheme in schemes for jar in storage_jars(scheme, formats)]
    return list(dict.fromkeys([*of_formats, *of_stores, *(DRIVERS[name] for name in databases if name in DRIVERS)]))


def databases_of(catalogs: Sequence[Catalog], conf: Mapping[str, str]) -> list[str]:
    """The databases of JDBC catalogs whose driver is ours to bring: nobody named another version of it."""
    named = " ".join(conf.get(key, "") for key in ("spark.jars", "spark.jars.packages", "spark.driver.extraClassPath"))
    found = [
        str(value).split(":")[1] for one in catalogs for key, value in one.engine_properties if is_jdbc(key, value)
    ]
    return [name for name in dict.fromkeys(found) if name in DRIVERS and DRIVERS[name].module not in named]


def is_jdbc(key: str, value: str) -> bool:
    return key == "uri" and value.startswith("jdbc:")


def storage_jars(scheme: str, formats: Sequence[str]) -> Iterator[Jar]:
    known = STORAGE_JARS.get(spark_line(), {}).get(scheme)
    if known is None:
        raise NotFound(f"no jars are known for {scheme}:// on Spark {spark_line()}")
    for name, jars in known.items():
        if name == "" or name in formats:
            yield from jars


def ensure_jars(
    formats: Sequence[str],
    schemes: Sequence[str] = (),
    databases: Sequence[str] = (),
    *,
    cache: Path | None = None,
    java: Java | None = None,
    progress: Progress = silent,
    sums: JarSums | None = None,
) -> list[Path]:
    """The local jars of these formats, object stores, and databases with JDBC catalogs."""
    return ensure(jars_of(formats, schemes, databases), cache=cache, java=java, progress=progress, sums=sums)


def ensure(
    jars: Sequence[Jar], *, cache: Path | None, java: Java | None, progress: Progress, sums: JarSums | None
) -> list[Path]:
    """Download what is missing and verify every checksum; one that ``sums`` remembers costs one stat."""
    folder = cache or default_cache()
    is_complete = all(is_there(jar, folder) for jar in jars)
    if not is_complete:
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    sums = sums or JarSums(shared_record())
    if not is_complete:
        with exclusive(folder):
            fetch_missing(jars, folder, java, progress, sums)
    for jar in jars:
        refuse_changed(jar, folder / jar.file_name, sums)
    return [folder / jar.file_name for jar in jars]


def shared_record() -> Path | None:
    """Beside the user's jars, where the links in every home find it; None where others could write it."""
    return record_in(default_cache())


def is_there(jar: Jar, folder: Path) -> bool:
    """Whether a file of this name and size exists; its checksum is verified before use."""
    return size_of(folder / jar.file_name) == jar.size


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """When two processes start together, the second waits and then finds the files."""
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def fetch_missing(jars: Sequence[Jar], folder: Path, java: Java | None, progress: Progress, sums: JarSums) -> None:
    """Several at once, each once. All of them are tried before the first failure is raised: what is complete stays."""
    missing = sorted({jar for jar in jars if not is_there(jar, folder)}, key=lambda jar: jar.size, reverse=True)
    if not missing:
        return
    name = missing[0].file_name if len(missing) == 1 else f"{len(missing)} jars"
    total, processes = sum(jar.size for jar in missing), list[Popen[bytes]]()
    pool = ThreadPool(AT_ONCE)  # of daemon threads: Ctrl-C does not wait for them
    try:
        fetching = pool.map_async(lambda jar: provide(jar, folder, java, sums, processes.append), missing, chunksize=1)
        while not fetching.ready():
            progress(name, sum(so_far(jar, folder) for jar in missing), total)
            fetching.wait(POLL)
        pool.close()
        pool.join()
        fetching.get()
    finally:
        pool.terminate()
        for process in processes:
            process.kill()
    progress(name, total, total)


def part_of(jar: Jar, folder: Path) -> Path:
    """What there is of an incomplete jar. The next start goes on with it."""
    return folder / f".{jar.file_name}.part"


def so_far(jar: Jar, folder: Path) -> int:
    return jar.size if is_there(jar, folder) else fetched_so_far(jar, folder, part_of(jar, folder))


def provide(jar: Jar, folder: Path, java: Java | None, sums: JarSums, started: Started) -> None:
    part = part_of(jar, folder)
    if not borrow(jar, folder, part):
        download(jar, part, java, sums, started)
    check(jar, part, sums)
    part.replace(folder / jar.file_name)


def borrow(jar: Jar, folder: Path, part: Path) -> bool:
    """Link or copy the file from the user's cache, when it is not the folder itself."""
    shared = default_cache()
    if shared.absolute() == folder.absolute() or not is_there(jar, shared):
        return False
    part.unlink(missing_ok=True)
    try:
        part.hardlink_to(shared / jar.file_name)
    except OSError:
        shutil.copyfile(shared / jar.file_name, part)
    return True


def download(jar: Jar, part: Path, java: Java | None, sums: JarSums, started: Started) -> None:
    [ivy] = (spark_home() / "jars").glob("ivy-*.jar")
    repository = default_repository(ivy)
    if repository and fetch_directly(jar, part, repository) and sums.of(part) == jar.sha256:
        return
    part.unlink(missing_ok=True)
    try:
        fetch_with_ivy(jar, part, ivy, java or java_home(), started)
    except DownloadFailed as failure:
        raise JarsUnavailable(unavailable(jar, part.parent, str(failure))) from failure


def check(jar: Jar, part: Path, sums: JarSums) -> None:
    if (found := sums.of(part)) != jar.sha256:
        part.unlink()
        raise JarRefused(
            f"{jar.file_name} has the sha256 {found}, expected {jar.sha256}; the file was not kept. "
            "Try again; if it repeats, a proxy or mirror changes the file."
        )


def refuse_changed(jar: Jar, file: Path, sums: JarSums) -> None:
    if (found := sums.of(file)) != jar.sha256:
        raise JarRefused(
            f"{file} has the sha256 {found}, expected {jar.sha256}: it was changed. Find out who can "
            f"write to {file.parent}; then delete the file, and it is downloaded again at the next start"
        )


def unavailable(jar: Jar, folder: Path, said: str) -> str:
    return (
        f"{jar.organisation}:{jar.module}:{jar.version} could not be downloaded. Check the network and try again, "
        f"or put {jar.file_name} into {folder} yourself (sha256 {jar.sha256}). Ivy said: {said}"
    )


class DownloadProgress:
    """Prints progress: one changing line on a terminal, one line per tenth otherwise."""

    def __init__(self) -> None:
        self.started = time.monotonic()
        self.last = -1

    def __call__(self, name: str, done: int, total: int) -> None:
        tenths = done * 10 // total
        is_terminal = sys.stdout.isatty()
        if not is_terminal and self.last == tenths:
            return
        self.last = tenths
        seconds = int(time.monotonic() - self.started)
        start, end = ("\r" if is_terminal else "", "\n" if done >= total or not is_terminal else "")
        sys.stdout.write(f"{start}{name}: {done >> 20} of {total >> 20} MB, {seconds} s{end}")
        sys.stdout.flush()


def main(formats: Sequence[str]) -> int:
    try:
        found = ensure_jars(formats or list(FORMATS), progress=DownloadProgress())
        sys.stdout.write(f"{len(found)} jars in {default_cache()}\n")
    except KeyboardInterrupt:
        return 130
    except LakehandError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
