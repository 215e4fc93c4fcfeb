# SPDX-License-Identifier: Apache-2.0
"""The jars of each table format: downloaded once, verified, then used as local files.

Each comes straight from Ivy's default repository, else with Ivy, which follows the settings of Java. Checksums are
remembered, so that a jar that did not change is not read again at each start.
"""

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from http.client import HTTPException
from importlib.metadata import version
from importlib.util import find_spec
from multiprocessing.pool import ThreadPool
from pathlib import Path
from stat import S_IWGRP, S_IWOTH
from subprocess import Popen
from tempfile import TemporaryDirectory
from threading import Lock
from urllib.request import Request, urlopen
from zipfile import ZipFile

from lakehand.domain.errors import LakehandError, NotFound
from lakehand.engines.spark.java import Java, java_home
from lakehand.engines.spark.known_jars import DRIVERS, FORMATS, JARS, STORAGE_JARS, Jar
from lakehand.spi import Catalog

ATTEMPTS = 3  # each goes on where the one before stopped
FETCHED_AT_ONCE = 1 << 18
STALLED = 20  # seconds without a byte
DOWNLOAD_TIMEOUT = 1800  # seconds for one jar
SCRATCH = ".fetching-"
IVY_PROPERTIES = "org/apache/ivy/core/settings/repository.properties"
IVY_ROOT = re.compile(r"^ivy\.ibiblio\.default\.artifact\.root\s*=\s*(https://\S+?)/?$", re.MULTILINE)
READ_AT_ONCE = 1 << 20
RECORD = "jar-sums.json"
MOST_SUMS = 200  # files; the record does not grow forever
AT_ONCE = 4  # downloads
POLL = 0.2  # seconds between two progress reports

Started = Callable[[Popen[bytes]], None]
Progress = Callable[[str, int, int], None]  # file name, bytes so far, bytes in all


class DownloadFailed(Exception):
    """Neither way worked; the text is what Ivy said."""


def default_repository(ivy: Path) -> str | None:
    """Its address, which Ivy's jar names. Ivy itself asks there, too, unless somebody configured another one."""
    with ZipFile(ivy) as jar:
        found = IVY_ROOT.search(jar.read(IVY_PROPERTIES).decode()) if IVY_PROPERTIES in jar.namelist() else None
    return found[1] if found else None


def fetch_directly(jar: Jar, part: Path, repository: str) -> bool:
    """Without a JVM, which costs seconds of processor time per jar. False if it did not work."""
    address = f"{repository}/{jar.organisation.replace('.', '/')}/{jar.module}/{jar.version}/{jar.file_name}"
    for _ in range(ATTEMPTS):
        before = size_of(part)
        with suppress(OSError, HTTPException):
            append(address, part, jar.size)
        if size_of(part) == jar.size:
            return True
        if size_of(part) == before:
            return False
    return False


def append(address: str, part: Path, size: int) -> None:
    """Download what the file lacks, or all of it from a server that knows no ranges."""
    part.touch(mode=0o644)  # whatever the umask: nobody else may change a jar
    done = size_of(part)
    request = Request(address, headers={"Range": f"bytes={done}-"} if done else {})  # noqa: S310 - Ivy's is https
    with urlopen(request, timeout=STALLED) as answer, part.open("ab" if answer.status == 206 else "wb") as file:  # noqa: S310
        while file.tell() < size and (block := answer.read(min(FETCHED_AT_ONCE, size - file.tell()))):
            file.write(block)


def size_of(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0


def fetch_with_ivy(jar: Jar, part: Path, ivy: Path, java: Java, started: Started) -> None:
    with TemporaryDirectory(prefix=SCRATCH, dir=part.parent) as folder:
        scratch = Path(folder)
        log = scratch / "ivy.log"
        with log.open("w") as output:
            process = Popen(ivy_command(jar, scratch, ivy, java), stdout=output, stderr=output)
        started(process)
        try:
            process.wait(DOWNLOAD_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        fetched = next(scratch.glob(f"**/jars/{jar.file_name}"), None)
        if process.returncode != 0 or fetched is None:
            lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip(" .")]
            raise DownloadFailed(" | ".join(lines[-8:])[-1500:])
        fetched.chmod(0o644)
        fetched.replace(part)


def ivy_command(jar: Jar, scratch: Path, ivy: Path, java: Java) -> list[str | Path]:
    wanted = ["-dependency", jar.organisation, jar.module, jar.version, "-notransitive", "-types", "jar"]
    return [java.program, *java.options, "-jar", ivy, "-warn", "-confs", "default", "-cache", scratch / "ivy", *wanted]


def fetched_so_far(jar: Jar, folder: Path, part: Path) -> int:
    """By the size of the growing file: Ivy reports no progress."""
    with suppress(FileNotFoundError):  # it is renamed when it is complete
        growing = [part, *folder.glob(f"{SCRATCH}*/**/jars/{jar.file_name}*")]
        return min(max(size_of(file) for file in growing), jar.size)
    return jar.size


class JarSums:
    """Checksums by device, inode, size and times, in a file that only this user can write."""

    def __init__(self, record: Path | None = None) -> None:
        self._record = record  # None: remember nothing
        self._known = read_record(record)
        self._keeping = Lock()

    def of(self, file: Path) -> str:
        """The current SHA-256 of a file; computed only if the file may have changed."""
        key = identity(file.stat())
        known = self._known.get(key)
        if known is None:
            known = sha256_of(file)
            self._keep(key, known)
        return known

    def _keep(self, key: str, found: str) -> None:
        """Best effort: without the record the next start takes a second longer."""
        with self._keeping:
            self._known[key] = found
            if self._record is None:
                return
            recent = list((read_record(self._record) | self._known).items())[-MOST_SUMS:]
            draft = self._record.with_name(f".{self._record.name}.{os.getpid()}")
            with suppress(OSError):
                draft.touch(mode=0o600)
                draft.write_text(json.dumps(dict(recent)), encoding="utf-8")
                draft.replace(self._record)


def identity(found: os.stat_result) -> str:
    """Who can write a file can also set its time back, but not the time of that change, which a link changes, too."""
    times = [found.st_mtime_ns] if is_private(found) else [found.st_mtime_ns, found.st_ctime_ns]
    return ":".join(str(part) for part in (found.st_dev, found.st_ino, found.st_size, *times))


def is_private(found: os.stat_result) -> bool:
    """Only this user (and root) can write it."""
    return found.st_uid == os.geteuid() and not found.st_mode & (S_IWGRP | S_IWOTH)


def record_in(folder: Path) -> Path | None:
    """The record that everything on this machine shares; None where others could write it."""
    try:
        return folder / RECORD if is_private(folder.stat()) else None
    except OSError:
        return None


def read_record(record: Path | None) -> dict[str, str]:
    try:
        known = json.loads(record.read_text(encoding="utf-8")) if record else {}
    except (OSError, ValueError):
        return {}
    return {str(key): str(value) for key, value in known.items()} if isinstance(known, dict) else {}


def sha256_of(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while block := stream.read(READ_AT_ONCE):
            digest.update(block)
    return digest.hexdigest()


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
