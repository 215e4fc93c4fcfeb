# SPDX-License-Identifier: Apache-2.0
"""A test that leaves something behind fails, and the message names it; what a wider fixture made may stay."""

import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest

from tests.kit import leftovers
from tests.kit.leftovers import Leftovers
from tests.kit.polling import wait_for

PROGRAM = [sys.executable, "-c", "import sys; sys.stdin.read()"]


@pytest.fixture
def plugin(monkeypatch: pytest.MonkeyPatch) -> Iterator[Leftovers]:
    """One that waits for nothing."""
    for name in ("TMPDIR", leftovers.RUN):
        monkeypatch.setenv(name, "")
    monkeypatch.setattr(tempfile, "tempdir", tempfile.tempdir)
    monkeypatch.setattr(leftovers, "GRACE", 0.0)
    found = Leftovers()
    found.begin()
    yield found
    found.pytest_unconfigure()


@pytest.fixture
def check(plugin: Leftovers, request: pytest.FixtureRequest) -> Callable[[Callable[[], object]], str]:
    """Runs a test's body between the plugin's hooks; returns the message if it fails."""

    def run(body: Callable[[], object]) -> str:
        list(plugin.pytest_runtest_setup(request.node))
        body()
        try:
            list(plugin.pytest_runtest_teardown(request.node, None))
        except pytest.fail.Exception as failed:
            return str(failed)
        return ""

    return run


def test_a_process_is_named(check: Callable[[Callable[[], object]], str]) -> None:
    started: list[subprocess.Popen[bytes]] = []

    message = check(lambda: started.append(subprocess.Popen(PROGRAM, stdin=subprocess.PIPE)))

    [one] = started
    one.communicate()
    assert f"process {one.pid} (" in message


def test_a_process_whose_parent_has_ended_is_found_by_its_environment(plugin: Leftovers) -> None:
    starter = f"import subprocess; print(subprocess.Popen({PROGRAM!r}, stdin=0).pid)"
    with subprocess.Popen([sys.executable, "-c", starter], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        orphan = int(parent.stdout.readline())
        parent.wait()

        found = plugin.found(with_orphans=True)

    assert f"process {orphan}" in found


def test_a_thread_is_named(check: Callable[[Callable[[], object]], str]) -> None:
    end = threading.Event()
    thread = threading.Thread(target=end.wait, name="forgotten")

    message = check(thread.start)

    end.set()
    thread.join()
    assert "thread forgotten" in message


def test_a_listening_socket_is_named_by_its_port(check: Callable[[Callable[[], object]], str]) -> None:
    made: list[socket.socket] = []

    message = check(lambda: made.append(socket.create_server(("127.0.0.1", 0))))

    [one] = made
    port = one.getsockname()[1]
    one.close()
    assert f"listens at ('127.0.0.1', {port})" in message


def test_a_temporary_folder_is_named(check: Callable[[Callable[[], object]], str]) -> None:
    made: list[str] = []

    message = check(lambda: made.append(tempfile.mkdtemp(prefix="lakehand-demo-")))

    assert made[0] in message


def test_what_ends_with_the_test_is_fine(check: Callable[[Callable[[], object]], str]) -> None:
    def tidy() -> None:
        with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)):
            Path(folder, "file").touch()
        subprocess.run([sys.executable, "-c", ""], check=True)

    assert check(tidy) == ""


def test_what_a_wider_fixture_made_may_stay(plugin: Leftovers, request: pytest.FixtureRequest) -> None:
    class Wider:
        scope = "module"

    list(plugin.pytest_runtest_setup(request.node))
    setup = plugin.pytest_fixture_setup(Wider())  # type: ignore[arg-type]
    next(setup)
    tempfile.mkdtemp()
    with pytest.raises(StopIteration):
        next(setup)

    list(plugin.pytest_runtest_teardown(request.node, None))


class RealTest:
    """A test with a mark, in a file."""

    def __init__(self, path: str, mark: str = "server") -> None:
        self.path, self.mark = Path(path), mark

    def get_closest_marker(self, name: str) -> bool:
        return name == self.mark


def test_the_last_test_of_a_file_fails_for_what_its_services_leave(plugin: Leftovers) -> None:
    first, last, next_file = (cast("pytest.Item", RealTest(name)) for name in ("one.py", "one.py", "two.py"))
    list(plugin.pytest_runtest_setup(first))
    folder = tempfile.mkdtemp()

    list(plugin.pytest_runtest_teardown(first, last))
    with pytest.raises(pytest.fail.Exception, match=folder):
        list(plugin.pytest_runtest_teardown(last, next_file))


def test_a_file_whose_long_tests_run_is_not_checked_yet(plugin: Leftovers) -> None:
    last, long = (cast("pytest.Item", RealTest("one.py", mark)) for mark in ("server", "long"))
    list(plugin.pytest_runtest_setup(last))
    list(plugin.pytest_runtest_setup(long))
    tempfile.mkdtemp()

    list(plugin.pytest_runtest_teardown(last, None))


def test_what_a_known_process_starts_is_its_own_business(plugin: Leftovers) -> None:
    starter = f"import subprocess; subprocess.run({PROGRAM!r})"
    one = cast("pytest.Item", RealTest("one.py"))
    list(plugin.pytest_runtest_setup(one))
    with subprocess.Popen([sys.executable, "-c", starter], stdin=subprocess.PIPE) as parent:
        known = f"process {parent.pid}"
        wait_for(lambda: plugin.left_by_file() - {known}, "the second process")

        plugin.before_file.add(known)

        assert not plugin.left_by_file()
