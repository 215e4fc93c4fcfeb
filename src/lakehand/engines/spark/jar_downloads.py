# SPDX-License-Identifier: Apache-2.0
"""Downloads one jar: straight from Ivy's default repository, else with Ivy, which follows the settings of Java."""

import re
import subprocess
from collections.abc import Callable
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.request import Request, urlopen
from zipfile import ZipFile

from lakehand.engines.spark.java import Java
from lakehand.engines.spark.known_jars import Jar

ATTEMPTS = 3  # each goes on where the one before stopped
BLOCK = 1 << 18
STALLED = 20  # seconds without a byte
TIMEOUT = 1800  # seconds for one jar
SCRATCH = ".fetching-"
IVY_PROPERTIES = "org/apache/ivy/core/settings/repository.properties"
IVY_ROOT = re.compile(r"^ivy\.ibiblio\.default\.artifact\.root\s*=\s*(https://\S+?)/?$", re.MULTILINE)

Started = Callable[[subprocess.Popen[bytes]], None]


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
        while file.tell() < size and (block := answer.read(min(BLOCK, size - file.tell()))):
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
            process = subprocess.Popen(ivy_command(jar, scratch, ivy, java), stdout=output, stderr=output)
        started(process)
        try:
            process.wait(TIMEOUT)
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
