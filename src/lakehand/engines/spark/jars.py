# SPDX-License-Identifier: Apache-2.0
"""The jars of each table format: downloaded once with the Ivy of pyspark, verified, then used as local files."""

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from lakehand.domain.errors import LakehandError, NotFound
from lakehand.engines.spark.java import Java, java_home
from lakehand.engines.spark.known_jars import DRIVERS, FORMATS, JARS, STORAGE_JARS, Jar
from lakehand.spi import Catalog

Progress = Callable[[str, int, int], None]  # file name, bytes so far, bytes in all

BLOCK = 1 << 20
POLL = 0.2  # seconds between two progress reports of a download
TIMEOUT = 1800  # seconds for one jar


class JarsUnavailable(LakehandError):
    """A jar could not be downloaded."""

    code = "jars-unavailable"
    retryable = True


class JarRefused(LakehandError):
    """A jar has the wrong checksum."""

    code = "jar-refused"


class JarSums:
    """Remembers checksums by device, inode, size and change time, in a file of the engine's home."""

    def __init__(self, record: Path | None = None) -> None:
        self._record = record  # None: remember nothing
        self._known = read_record(record)

    def of(self, file: Path) -> str:
        """The current SHA-256 of a file; computed only if the file may have changed."""
        found = file.stat()
        identity = f"{found.st_dev}:{found.st_ino}:{found.st_size}:{found.st_mtime_ns}"
        known = self._known.get(identity)
        if known is None:
            known = self._known[identity] = sha256_of(file)
            self._keep()
        return known

    def _keep(self) -> None:
        """Best effort: without the record the next start takes a second longer."""
        if self._record is None:
            return
        draft = self._record.with_name(f".{self._record.name}.new")
        with suppress(OSError):
            draft.write_text(json.dumps(self._known), encoding="utf-8")
            draft.replace(self._record)


def read_record(record: Path | None) -> dict[str, str]:
    try:
        known = json.loads(record.read_text(encoding="utf-8")) if record else {}
    except (OSError, ValueError):
        return {}
    return {str(key): str(value) for key, value in known.items()} if isinstance(known, dict) else {}


def sha256_of(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while block := stream.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()


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
    folder, sums = cache or default_cache(), sums or JarSums()
    if missing := [jar for jar in jars if not is_there(jar, folder)]:
        folder.mkdir(parents=True, exist_ok=True)
        with exclusive(folder):
            for jar in missing:
                provide(jar, folder, java or java_home(), progress, sums)
    for jar in jars:
        refuse_changed(jar, folder / jar.file_name, sums)
    return [folder / jar.file_name for jar in jars]


def is_there(jar: Jar, folder: Path) -> bool:
    """Whether a file of this name and size exists; its checksum is verified before use."""
    try:
        return (folder / jar.file_name).stat().st_size == jar.size
    except FileNotFoundError:
        return False


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """When two processes start together, the second waits and then finds the files."""
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def provide(jar: Jar, folder: Path, java: Java, progress: Progress, sums: JarSums) -> None:
    if is_there(jar, folder):
        return
    with TemporaryDirectory(prefix=".fetching-", dir=folder) as scratch:
        fetched = borrow(jar, folder, Path(scratch)) or fetch(jar, Path(scratch), java, progress)
        check(jar, fetched, sums)
        fetched.replace(folder / jar.file_name)


def borrow(jar: Jar, folder: Path, scratch: Path) -> Path | None:
    """Link or copy the file from the user's cache, when it is not the folder itself."""
    shared = default_cache()
    if shared.absolute() == folder.absolute() or not is_there(jar, shared):
        return None
    target = scratch / jar.file_name
    try:
        target.hardlink_to(shared / jar.file_name)
    except OSError:
        shutil.copyfile(shared / jar.file_name, target)
    return target


def check(jar: Jar, file: Path, sums: JarSums) -> None:
    if (found := sums.of(file)) != jar.sha256:
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


def fetch(jar: Jar, scratch: Path, java: Java, progress: Progress) -> Path:
    log = scratch / "ivy.log"
    with log.open("w") as output:
        process = subprocess.Popen(ivy_command(jar, scratch, java), stdout=output, stderr=output)
        try:
            follow(process, jar, scratch, progress)
        finally:
            process.kill()
            process.wait()
    fetched = next(scratch.glob(f"**/jars/{jar.file_name}"), None)
    if process.returncode != 0 or fetched is None:
        raise JarsUnavailable(unavailable(jar, scratch.parent, log))
    progress(jar.file_name, jar.size, jar.size)
    return fetched


def ivy_command(jar: Jar, scratch: Path, java: Java) -> list[str | Path]:
    [ivy] = (spark_home() / "jars").glob("ivy-*.jar")
    wanted = ["-dependency", jar.organisation, jar.module, jar.version, "-notransitive", "-types", "jar"]
    return [java.program, *java.options, "-jar", ivy, "-warn", "-confs", "default", "-cache", scratch / "ivy", *wanted]


def follow(process: subprocess.Popen[bytes], jar: Jar, scratch: Path, progress: Progress) -> None:
    """Report the size of the growing file, because Ivy reports no progress."""
    for _ in range(int(TIMEOUT / POLL)):
        progress(jar.file_name, fetched_so_far(jar, scratch), jar.size)
        try:
            process.wait(timeout=POLL)
            return
        except subprocess.TimeoutExpired:
            continue


def fetched_so_far(jar: Jar, scratch: Path) -> int:
    with suppress(FileNotFoundError):  # Ivy renames the complete file
        return max((file.stat().st_size for file in scratch.glob(f"**/jars/{jar.file_name}*")), default=0)
    return jar.size


def unavailable(jar: Jar, folder: Path, log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip(" .")]
    return (
        f"{jar.organisation}:{jar.module}:{jar.version} could not be downloaded. Check the network and try again, "
        f"or put {jar.file_name} into {folder} yourself (sha256 {jar.sha256}). "
        f"Ivy said: {' | '.join(lines[-8:])[-1500:]}"
    )


class DownloadProgress:
    """Prints progress: one changing line on a terminal, one line per tenth otherwise."""

    def __init__(self) -> None:
        self.last = ("", -1)

    def __call__(self, name: str, done: int, total: int) -> None:
        tenths = done * 10 // total
        is_terminal = sys.stdout.isatty()
        if not is_terminal and self.last == (name, tenths):
            return
        self.last = (name, tenths)
        end = "\n" if done >= total or not is_terminal else ""
        sys.stdout.write(f"{chr(13) if is_terminal else ''}{name}: {done >> 20} of {total >> 20} MB{end}")
        sys.stdout.flush()


def main(formats: Sequence[str]) -> int:
    try:
        for path in ensure_jars(formats or list(FORMATS), progress=DownloadProgress()):
            sys.stdout.write(f"{path}\n")
    except LakehandError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
