# SPDX-License-Identifier: Apache-2.0
"""Builds the Maven project of the writer, once for each state of its sources."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
CACHE = HERE / "target"
SAY_EVERY_SECONDS = 15

Say = Callable[[str], object]


class BuildFailed(Exception):
    """Maven could not build the writer."""


def missing_programs() -> list[str]:
    found = {name: java_program(name) for name in ("java", "javac")} | {"mvn": shutil.which("mvn")}
    return sorted(name for name, path in found.items() if path is None)


def available() -> bool:
    return not missing_programs()


def java_program(name: str) -> str | None:
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / name).is_file():
        return str(Path(home) / "bin" / name)
    return shutil.which(name)


def say_on_stderr(words: str) -> None:
    sys.stderr.write(f"{words}\n")
    sys.stderr.flush()


def build(cache: Path = CACHE, say: Say = say_on_stderr) -> Path:
    """The program as a jar with its libraries beside it; Maven runs only if these sources were not built before."""
    place = cache / f"hudi-client-{fingerprint()}"
    built = place / "built"
    cache.mkdir(parents=True, exist_ok=True)
    with one_at_a_time(cache / "hudi-client.lock"):
        if not built.exists():
            copy_sources(place)
            run_maven(place, say)
            built.touch()
            remove_others(place)
    return place / "target" / "hudi-client.jar"


def sources() -> list[Path]:
    return [HERE / "pom.xml", *sorted(path for path in (HERE / "src").rglob("*") if path.is_file())]


def fingerprint() -> str:
    digest = hashlib.sha256()
    for path in sources():
        digest.update(f"{path.relative_to(HERE)}\0{path.stat().st_size}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


@contextmanager
def one_at_a_time(lock: Path) -> Iterator[None]:
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def copy_sources(place: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)
    for path in sources():
        copy = place / path.relative_to(HERE)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)


def remove_others(place: Path) -> None:
    """Each build holds 80 MB of libraries; only the newest is of use."""
    for other in place.parent.glob("hudi-client-*"):
        if other != place:
            shutil.rmtree(other, ignore_errors=True)


def run_maven(place: Path, say: Say) -> None:
    say("hudi client: building the Hudi 1.2.1 writer with Maven (about a minute the first time)")
    log = place / "maven.out"
    command = ["mvn", "-q", "-B", "-Dmaven.wagon.http.retryHandler.count=3", "package", "dependency:copy-dependencies"]
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=place, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        watch(process, say)
    if process.returncode:
        raise BuildFailed(f"mvn ended with {process.returncode}; its last words:\n{log.read_text()[-3000:]}")


def watch(process: "subprocess.Popen[bytes]", say: Say) -> None:
    start = time.monotonic()
    try:
        while not ends_within(process, SAY_EVERY_SECONDS):
            say(f"hudi client: still building after {time.monotonic() - start:.0f} s")
    finally:
        process.kill()
        process.wait()


def ends_within(process: "subprocess.Popen[bytes]", seconds: float) -> bool:
    try:
        process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        return False
    return True
