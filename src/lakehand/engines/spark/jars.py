# SPDX-License-Identifier: Apache-2.0
"""The jars of each table format: fetched once with the Ivy inside pyspark, checked, then used as local files."""

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from lakehand.domain.errors import LakehandError, NotFound
from lakehand.engines.spark.jar_sums import JarSums
from lakehand.engines.spark.java import Java, java_home

Progress = Callable[[str, int, int], None]  # file name, bytes so far, bytes in all

POLL = 0.2  # seconds between two looks at a download
PATIENCE = 1800  # seconds for one jar


class JarsUnavailable(LakehandError):
    """A jar could not be fetched."""

    code = "jars-unavailable"
    retryable = True


class JarRefused(LakehandError):
    """A jar is not the file that was expected."""

    code = "jar-refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Jar:
    organisation: str
    module: str
    version: str
    size: int
    sha256: str

    @property
    def file_name(self) -> str:
        return f"{self.module}-{self.version}.jar"


HUDI = Jar(
    organisation="org.apache.hudi",
    module="hudi-spark3.5-bundle_2.12",
    version="1.2.0",
    size=80667825,
    sha256="cc79fba00822f3a6c3a860df99375c2e3d4a034d037dbf4213a4966a706a7676",
)
OLD_HUDI = Jar(
    organisation="org.apache.hudi",
    module="hudi-spark3.5-bundle_2.12",
    version="0.15.0",
    size=109001611,
    sha256="aab6ecdb5c65fcd20406b980b31ccec294fae95693de947d5778f0b3fb4e302a",
)

ICEBERG = Jar(
    organisation="org.apache.iceberg",
    module="iceberg-spark-runtime-3.5_2.12",
    version="1.12.0",
    size=48252525,
    sha256="8dd8c90e54ed1a20f2461309d047a255ee56382eb7c0a46162b27a4936fd86dc",
)
DELTA = Jar(
    organisation="io.delta",
    module="delta-spark_2.12",
    version="3.3.3",
    size=7123349,
    sha256="4912bf902a1c453aba3bd838ff212dedd357155212f9bb37a6b47d97f2827ebc",
)
DELTA_STORAGE = Jar(
    organisation="io.delta",
    module="delta-storage",
    version="3.3.3",
    size=32289,
    sha256="45ad193053fd30cebe6d9ab1889873cde39b223a0f210e00ebee8b6642476901",
)
PAIMON = Jar(
    organisation="org.apache.paimon",
    module="paimon-spark-3.5",
    version="0.9.0",
    size=41660699,
    sha256="e9e8a90a630a1440dfd869bb568c8fc916d6de23bc162922cc0c2684ed6fa15b",
)
SQLITE_JDBC = Jar(
    organisation="org.xerial",
    module="sqlite-jdbc",
    version="3.46.1.3",
    size=14127503,
    sha256="4a4832720a65eaf7f4d6fd7ede52087b994dc5633c076f9e994dc0c8b4b0b4fa",
)
HADOOP_AWS = Jar(
    organisation="org.apache.hadoop",
    module="hadoop-aws",
    version="3.3.4",
    size=962685,
    sha256="53f9ae03c681a30a50aa17524bd9790ab596b28481858e54efd989a826ed3a4a",
)
AWS_SDK = Jar(
    organisation="com.amazonaws",
    module="aws-java-sdk-bundle",
    version="1.12.262",
    size=280645251,
    sha256="873fe7cf495126619997bec21c44de5d992544aea7e632fdc77adb1a0915bae5",
)

# Spark line → format → its jars, in class path order. Every jar is named: nothing is resolved transitively.
# The order of the formats is the order of the class path of a driver that serves several.
JARS: dict[str, dict[str, tuple[Jar, ...]]] = {
    "3.5": {
        "iceberg": (ICEBERG,),
        "delta": (DELTA, DELTA_STORAGE),
        "paimon": (PAIMON,),
        "hudi": (HUDI,),
        "lance": (),  # pylance on the executors: no jar
        "hudi-0.15": (OLD_HUDI,),  # for tests: writes tables of timeline layout 1
        "jdbc-sqlite": (SQLITE_JDBC,),  # for tests: an Iceberg JDBC catalog on SQLite
        "s3": (HADOOP_AWS, AWS_SDK),  # for tests: tables on an S3 server
    },
}


FORMATS = ("iceberg", "delta", "paimon", "hudi", "lance")


def silent(name: str, done: int, total: int) -> None:
    """Progress that nobody watches."""


def default_cache() -> Path:
    if chosen := os.environ.get("LAKEHAND_JARS"):
        return Path(chosen).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "lakehand" / "jars"


def spark_home() -> Path:
    """The folder of the installed pyspark, found without importing it."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise NotFound("pyspark is not installed; run `make setup`")
    return Path(spec.origin).parent


def spark_line() -> str:
    return ".".join(version("pyspark").split(".")[:2])


def jars_of(formats: Sequence[str]) -> list[Jar]:
    known = JARS.get(spark_line(), {})
    if unknown := [name for name in formats if name not in known]:
        raise NotFound(f"no jars are known for {unknown[0]} on Spark {spark_line()}; known: {', '.join(known)}")
    return list(dict.fromkeys(jar for name, jars in known.items() if name in formats for jar in jars))


def ensure_jars(
    formats: Sequence[str],
    *,
    cache: Path | None = None,
    java: Java | None = None,
    progress: Progress = silent,
    sums: JarSums | None = None,
) -> list[Path]:
    """The local jars of these formats, each with the right sum; what ``sums`` remembers costs one stat per file."""
    folder, sums = cache or default_cache(), sums or JarSums()
    wanted = jars_of(formats)
    if absent := [jar for jar in wanted if not is_there(jar, folder)]:
        folder.mkdir(parents=True, exist_ok=True)
        with alone_in(folder):
            for jar in absent:
                provide(jar, folder, java or java_home(), progress, sums)
    for jar in wanted:
        refuse_changed(jar, folder / jar.file_name, sums)
    return [folder / jar.file_name for jar in wanted]


def is_there(jar: Jar, folder: Path) -> bool:
    """Whether a file of this name and size is there; its sum is checked before it is used."""
    try:
        return (folder / jar.file_name).stat().st_size == jar.size
    except FileNotFoundError:
        return False


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Two processes that start at once download once: the second waits, then finds the files."""
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
    """From the user's cache, when another folder was asked for and the file is at hand: linked, or copied."""
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
            "Try again; if it repeats, something between here and the repository changes files."
        )


def refuse_changed(jar: Jar, file: Path, sums: JarSums) -> None:
    if (found := sums.of(file)) != jar.sha256:
        raise JarRefused(
            f"{file} has the sha256 {found}, expected {jar.sha256}: somebody changed it, or the disk did. Find out who "
            f"may write to {file.parent}; then delete the file, and it is fetched again at the next start"
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
    """Report the growing file until Ivy ends; Ivy itself tells no numbers."""
    for _ in range(int(PATIENCE / POLL)):
        progress(jar.file_name, fetched_so_far(jar, scratch), jar.size)
        try:
            process.wait(timeout=POLL)
            return
        except subprocess.TimeoutExpired:
            continue


def fetched_so_far(jar: Jar, scratch: Path) -> int:
    with suppress(FileNotFoundError):  # Ivy renames the file when it is whole
        return max((file.stat().st_size for file in scratch.glob(f"**/jars/{jar.file_name}*")), default=0)
    return jar.size


def unavailable(jar: Jar, folder: Path, log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip(" .")]
    return (
        f"{jar.organisation}:{jar.module}:{jar.version} could not be fetched. Check the network and try again, "
        f"or put {jar.file_name} into {folder} yourself (sha256 {jar.sha256}). "
        f"Ivy said: {' | '.join(lines[-8:])[-1500:]}"
    )


class Shown:
    """Progress for a person: a moving line on a terminal, one line per tenth elsewhere."""

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
        for path in ensure_jars(formats or list(FORMATS), progress=Shown()):
            sys.stdout.write(f"{path}\n")
    except LakehandError as problem:
        sys.stderr.write(f"{problem}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
