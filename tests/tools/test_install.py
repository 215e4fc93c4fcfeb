# SPDX-License-Identifier: Apache-2.0
"""The set-up: uv gets pip's settings, a broken uv is replaced by pip, and nothing is left running."""

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.kit.polling import wait_for
from tools import install
from tools.install import Failed, Installation, pip_settings, settings_for_uv

MIRROR = "https://mirror.example/simple"
WORKS = "#!/bin/sh\nexit 0\n"
FAILS = "#!/bin/sh\necho no route to the index >&2\nexit 2\n"

Program = Callable[[str, str], Path]


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """Writes a program with this name and text into a folder of the test."""

    def write(name: str, text: str) -> Path:
        file = tmp_path / "bin" / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        file.chmod(0o755)
        return file

    return write


@pytest.fixture
def installation(
    tmp_path: Path, program: Program, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[], Installation]]:
    """Of an environment in which pip is a stand-in that writes down what it is asked, and uv is what the test wrote."""
    log = tmp_path / "pip.log"
    pip = program("pip", f'#!/bin/sh\necho "$*" >> {log}\n')
    log.touch()
    monkeypatch.setattr(install, "PIP", [str(pip)])
    monkeypatch.setattr(install, "PYTHON", tmp_path / "bin" / "python")
    monkeypatch.setenv("PATH", f"{tmp_path}/on-path:{os.defpath}")
    with (tmp_path / "lock").open("wb") as lock:
        yield lambda: Installation(lock, os.environ)


def test_uv_gets_the_settings_of_pip() -> None:
    pip = {
        "index-url": MIRROR,
        "extra-index-url": "https://a.example/simple\nhttps://b.example/simple",
        "cert": "/etc/company.pem",
        "proxy": "http://proxy.example:3128",
        "find-links": "/nowhere/at/all https://c.example/wheels",
        "progress-bar": "off",
    }

    found = settings_for_uv(pip, {"HOME": "/home/somebody"})

    assert found == {
        "HOME": "/home/somebody",
        "UV_DEFAULT_INDEX": MIRROR,
        "UV_INDEX": "https://a.example/simple https://b.example/simple",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "SSL_CERT_FILE": "/etc/company.pem",
        "HTTPS_PROXY": "http://proxy.example:3128",
        "UV_FIND_LINKS": "https://c.example/wheels",
    }


def test_settings_for_uv_itself_stay() -> None:
    own = {"UV_INDEX_URL": "https://own.example/simple", "SSL_CERT_FILE": "/own.pem", "all_proxy": "http://own"}

    assert settings_for_uv({"index-url": MIRROR, "cert": "/other.pem", "proxy": "http://other"}, own) == own


def test_pips_settings_come_from_its_files_and_first_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    file = tmp_path / "pip.conf"
    file.write_text(f"[global]\nindex-url = {MIRROR}\ncert = /global.pem\n[install]\ncert = /install.pem\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(file))
    monkeypatch.setattr(install, "PIP", [sys.executable, "-m", "pip"])
    assert pip_settings() == {"index-url": MIRROR, "cert": "/install.pem", "config-file": str(file)}

    monkeypatch.setenv("PIP_CERT", "/environment.pem")

    assert pip_settings()["cert"] == "/environment.pem"


def test_a_uv_that_does_not_work_is_replaced_by_the_pinned_one(
    installation: Callable[[], Installation], program: Program, capsys: pytest.CaptureFixture[str]
) -> None:
    program("../on-path/uv", FAILS)
    own = program("uv", WORKS)

    assert installation().installer[0] == str(own)
    assert "uv cannot be used here: no route to the index" in capsys.readouterr().out


@pytest.mark.parametrize("chosen", ["", "pip"])
def test_pip_installs_the_same_files_where_there_is_no_uv(
    installation: Callable[[], Installation],
    program: Program,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    chosen: str,
) -> None:
    monkeypatch.setenv("INSTALLER", chosen)
    if chosen:
        program("uv", WORKS)
    else:
        program("uv", FAILS)

    installation().install("packages", *install.locked("runtime"))

    asked = (tmp_path / "pip.log").read_text().splitlines()
    assert [line.rpartition(" ")[2] for line in asked if "uv.txt" not in line] == [
        "requirements/build.txt",
        "requirements/runtime.txt",
    ]
    assert all("--require-hashes" in line for line in asked)


def test_what_a_program_said_is_shown_when_it_fails(installation: Callable[[], Installation], program: Program) -> None:
    program("uv", WORKS)

    with pytest.raises(Failed, match="no route to the index"):
        installation().run("packages", [str(program("installer", FAILS))])


def test_stopping_the_set_up_ends_what_its_programs_have_started(tmp_path: Path, program: Program) -> None:
    pid = tmp_path / "pid"
    slow = program("slow", f"#!/bin/sh\nsleep 600 &\necho $! > {pid}.new\nmv {pid}.new {pid}\nwait\n")
    code = f"""
import sys
from tools import install
class Slow(install.Installation):
    def uv_or_pip(self):
        self.run("slow", [{str(slow)!r}])
install.Installation = Slow
install.ROOT = install.Path({str(tmp_path)!r})
(install.ROOT / ".venv").mkdir()
sys.exit(install.main([]))
"""
    set_up = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for(pid.exists, "the program to start another one")

    set_up.send_signal(signal.SIGTERM)

    _, errors = set_up.communicate(timeout=60)
    assert set_up.returncode == 130
    assert errors.strip() == "stopped; make setup goes on where it stopped"
    wait_for(lambda: not psutil.pid_exists(int(pid.read_text())), "the other program to end")


def test_a_signal_while_a_program_is_started_ends_it(tmp_path: Path, program: Program) -> None:
    """It is known as soon as it runs, and not only when ``Popen`` has returned."""
    started = tmp_path / "started"
    slow = program("slow", f"#!/bin/sh\necho $$ > {started}.new\nmv {started}.new {started}\nexec sleep 600\n")
    code = f"""
import os, signal, subprocess, sys
from tools import install
class SlowStart(subprocess.Popen):
    def __init__(self, *words, **more):
        super().__init__(*words, **more)
        while not os.path.exists({str(started)!r}):
            pass
        os.kill(os.getpid(), signal.SIGTERM)
class Slow(install.Installation):
    def uv_or_pip(self):
        subprocess.Popen = SlowStart
        self.run("slow", [{str(slow)!r}])
install.Installation = Slow
install.ROOT = install.Path({str(tmp_path)!r})
(install.ROOT / ".venv").mkdir()
sys.exit(install.main([]))
"""
    set_up = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)

    assert set_up.returncode == 130
    assert not psutil.pid_exists(int(started.read_text()))


def test_a_killed_set_up_keeps_the_next_one_waiting_until_its_programs_have_ended(
    tmp_path: Path, program: Program
) -> None:
    slow = program("slow", f"#!/bin/sh\ntouch {tmp_path}/started\nread line < {tmp_path}/end\n")
    os.mkfifo(tmp_path / "end")
    lock = tmp_path / "lock"
    code = f"""
from tools import install
class Slow(install.Installation):
    def uv_or_pip(self):
        self.run("slow", [{str(slow)!r}])
with open({str(lock)!r}, "wb") as lock:
    install.fcntl.flock(lock, install.fcntl.LOCK_EX)
    Slow(lock, install.os.environ)
"""
    set_up = subprocess.Popen([sys.executable, "-c", code])
    wait_for((tmp_path / "started").exists, "the program")
    set_up.kill()
    set_up.wait()

    with lock.open("wb") as held:
        with pytest.raises(BlockingIOError):
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        (tmp_path / "end").write_text("end\n")
        fcntl.flock(held, fcntl.LOCK_EX)
