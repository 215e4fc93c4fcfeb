# SPDX-License-Identifier: Apache-2.0
"""What a test leaves behind fails that test, by name: processes, threads, listening sockets and temporary folders.

Without this, a driver that lives on takes the port, the process number or the processor of another test, which then
fails by chance. What a fixture of a wider scope has made may stay until that fixture ends. Services and JVMs that tests
of one file share start further processes when they like: of tests marked ``spark``, ``server`` or ``long`` the last one
of the file fails, after the fixtures of the file have ended.
"""

import os
import shutil
import socket
import stat
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

RUN = "LAKEHAND_TEST_RUN"  # in the environment of every process that this one starts: whose it is
# No whole run has shown yet what long tests leave behind: a file is checked if none of them runs, or if this is set.
CHECKS_LONG = os.environ.get("LAKEHAND_LEFTOVERS") == "all"
GRACE = 10.0  # seconds for what is ending anyway
STARTING = 2.0  # seconds after its start within which a process may not have its environment yet
PACE = 0.02
# Java and its libraries unpack themselves when they like, and remove it when they end; a process that runs jobs of
# Paimon, or other processes by multiprocessing, has a folder for them until it ends.
KEPT = (
    "hsperfdata", "spark-", "blockmgr-", "liblz4", "libzstd", "snappy-", "netty", "jna", "librocksdb", "lance",
    "lakehand-paimon-", "pymp-",
)  # fmt: skip
# These live as long as the process that needs them, or a minute longer; that process itself must end with its test.
HELPERS = ("multiprocessing.resource_tracker", "multiprocessing.forkserver", "pyspark.daemon")


class Leftovers:
    """A plugin of pytest."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="lh-"))
        self.folder.chmod(0o755)  # a database server of root's tests runs as somebody else
        self.run = f"{os.getpid()}-{time.monotonic_ns()}"
        self.known: set[str] = set()
        self.file: Path | None = None  # of the real tests that run now
        self.before_file: set[str] = set()
        self.is_checked = True

    def begin(self) -> None:
        """From now on temporary files of this process and of those that it starts are in a folder of its own."""
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())  # folders of tests stay where they were
        os.environ["TMPDIR"] = tempfile.tempdir = str(self.folder)
        os.environ[RUN] = self.run

    def pytest_unconfigure(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: "pytest.FixtureDef[object]") -> Iterator[None]:
        if fixturedef.scope == "function":
            return (yield)
        outlives_file = fixturedef.scope in ("session", "package")
        before = self.found(with_orphans=outlives_file)
        try:
            return (yield)
        finally:
            made = self.found(with_orphans=outlives_file) - before
            self.known |= made
            if outlives_file:
                self.before_file |= made

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Iterator[None]:
        if not is_real(item):
            self.known = self.found()
        elif item.path != self.file:
            self.file, self.before_file, self.is_checked = item.path, self.found(with_orphans=True), True
        if item.get_closest_marker("long") and not CHECKS_LONG:
            self.is_checked = False
        return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
        """After the fixtures of the test have ended, and those of its file if the next test is in another one."""
        yield
        if not is_real(item):
            fail_if_any(lambda: self.found() - self.known, "the test leaves behind")
        is_last = nextitem is None or nextitem.path != item.path
        if is_last and item.path == self.file and self.is_checked:
            fail_if_any(self.left_by_file, f"the tests of {item.path.name} leave behind")

    def left_by_file(self) -> set[str]:
        left = self.found(with_orphans=True) - self.before_file - callback_sockets()
        return {one for one in left if not is_helper(one) and not ancestors(one) & self.before_file}

    def found(self, with_orphans: bool = False) -> set[str]:
        """``with_orphans``: also processes whose parent has died, which takes longer to find."""
        processes = orphans(self.run) | children() if with_orphans else children()
        return processes | threads() | sockets() | folders(self.folder)


def fail_if_any(find: Callable[[], set[str]], message: str) -> None:
    """What is ending anyway has some time to do so."""
    deadline = time.monotonic() + GRACE
    while left := find():
        if time.monotonic() > deadline:
            pytest.fail(f"{message}: {', '.join(map(described, sorted(left)))}", pytrace=False)
        time.sleep(PACE)


def is_real(item: pytest.Item) -> bool:
    return any(item.get_closest_marker(name) for name in ("spark", "server", "long"))


def children() -> set[str]:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return set()  # there is none, which is found out a hundred times faster than which ones there are
    numbers: set[str] = set()
    for file in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):  # the thread has ended
            numbers |= set(file.read_text().split())
    return {f"process {number}" for number in numbers if is_alive(number)}


def orphans(run: str) -> set[str]:
    mark, found = f"{RUN}={run}".encode(), set()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is not ours
            if folder.name != str(os.getpid()) and mark in environment(folder).split(b"\0"):
                found.add(f"process {folder.name}")
    return found


def environment(process: Path) -> bytes:
    """Read again while it is empty, and the process so young that it may get one: ``Popen`` returns before that."""
    while not (found := (process / "environ").read_bytes()) and age(process) < STARTING:
        time.sleep(PACE)
    return found


def age(process: Path) -> float:
    """Seconds since it was started; infinite once it has ended."""
    state, *words = (process / "stat").read_text().rpartition(")")[2].split()
    started = int(words[18]) / os.sysconf("SC_CLK_TCK")
    return float("inf") if state in "ZX" else time.clock_gettime(time.CLOCK_BOOTTIME) - started


def ancestors(one: str) -> set[str]:
    """The processes above a process, named as it is."""
    found: set[str] = set()
    with suppress(OSError):  # it has ended
        while one.startswith("process ") and one not in found:
            number = Path("/proc", one.removeprefix("process "), "stat").read_text().rpartition(")")[2].split()[1]
            found.add(one := f"process {number}")
    return found


def is_helper(one: str) -> bool:
    return any(name in described(one) for name in HELPERS)


def is_alive(number: str) -> bool:
    """Not one that has ended, though its parent has not noticed."""
    with suppress(OSError):
        return Path("/proc", number, "stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def described(one: str) -> str:
    """A process with its command."""
    with suppress(OSError):
        command = Path("/proc", one.removeprefix("process "), "cmdline").read_bytes().replace(b"\0", b" ").decode()
        return f"{one} ({command.strip()[:300]})"
    return one


def threads() -> set[str]:
    kept = threads_of_pyiceberg()
    return {f"thread {one.name} ({one.ident})" for one in threading.enumerate() if not one.daemon and one not in kept}


def threads_of_pyiceberg() -> Collection[threading.Thread]:
    """The library keeps one pool for the whole process, which grows when it likes."""
    library = sys.modules.get("pyiceberg.utils.concurrent")
    return getattr(library.ExecutorFactory._instance, "_threads", ()) if library else ()


def sockets() -> set[str]:
    """Those of this process that listen."""
    found: set[str] = set()
    for number in map(int, os.listdir("/dev/fd")):  # noqa: PTH208 - thousands of times
        with suppress(OSError):  # another thread has closed it
            if stat.S_ISSOCK(os.fstat(number).st_mode):
                with socket.socket(fileno=os.dup(number)) as one:
                    if one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                        found.add(f"a socket that listens at {one.getsockname()}")
    return found


def callback_sockets() -> set[str]:
    """Where the JVM of pyspark calls this process; it is opened by the first test that needs it, and stays."""
    library = sys.modules.get("pyspark")
    gateway = getattr(library.SparkContext, "_gateway", None) if library else None
    server = getattr(gateway, "_callback_server", None)
    return {f"a socket that listens at {server.server_socket.getsockname()}"} if server else set()


def folders(folder: Path) -> set[str]:
    return {f"{folder / name}" for name in os.listdir(folder) if not name.startswith(KEPT)}  # noqa: PTH208 - faster
