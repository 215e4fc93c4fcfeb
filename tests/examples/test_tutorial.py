# SPDX-License-Identifier: Apache-2.0
"""Follows the tutorial of docs/plugins.md to the letter: every file is written and every command is run, in order."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.examples.conftest import SiteFolder
from tests.kit.polling import wait_for
from tests.kit.ports import quiet_port
from tests.kit.service import RunningService

PAGE = (Path(__file__).parents[2] / "docs" / "plugins.md").read_text(encoding="utf-8")
TUTORIAL = PAGE.partition("\n## Tutorial\n")[2].partition("\n## ")[0]
BLOCK = re.compile(r"(?:^`(?P<file>[^`\n]+)`:\n\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
PROJECT = "acme-delta-checkpoint"
SERVE = "lakehand serve "

# pip without a network: what is installed already stays, and a folder goes to where the tutorial's reader has it.
PIP = """#!/bin/sh
test "$*" = 'install lakehand[testing]' && exit 0
exec {python} -m pip "$@" --quiet --no-deps --no-index --no-build-isolation --target {site}
"""


@dataclass(frozen=True, kw_only=True)
class Block:
    file: str | None
    language: str
    text: str


def blocks() -> list[Block]:
    return [Block(file=m["file"], language=m["language"], text=m["text"]) for m in BLOCK.finditer(TUTORIAL)]


class Reader:
    """Follows the tutorial in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.site = SiteFolder(folder=folder / "site")
        self.service: subprocess.Popen[bytes] | None = None
        self.output: dict[str, str] = {}
        self.port = quiet_port()
        self.site.folder.mkdir()
        self.write_pip()

    @property
    def project(self) -> Path:
        return self.folder / PROJECT

    @property
    def environment(self) -> dict[str, str]:
        path = os.pathsep.join([str(self.folder / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]])
        own = {"LAKEHAND_PORT": str(self.port), "LAKEHAND_URL": f"http://127.0.0.1:{self.port}", "COLUMNS": "200"}
        return {**self.site.environment, **own, "PATH": path}

    def write_pip(self) -> None:
        pip = self.folder / "bin" / "pip"
        pip.parent.mkdir()
        pip.write_text(PIP.format(python=sys.executable, site=self.site.folder))
        pip.chmod(0o755)

    def follow(self, block: Block) -> None:
        if block.file:
            (self.project / block.file).write_text(block.text)
        elif block.text.startswith(SERVE):
            self.serve(block.text)
        else:
            assert block.language == "sh", f"nobody would know what to do with: {block.text}"
            self.run(block.text)

    def run(self, text: str) -> None:
        where = self.project if (self.project / "tests" / "test_factory.py").exists() else self.folder
        script = text.replace(f"cd {PROJECT}\n", "")
        ran = subprocess.run(
            ["sh", "-ec", script], cwd=where, env=self.environment, capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, f"{script}\n{ran.stdout}\n{ran.stderr}"
        self.output[text.splitlines()[0]] = ran.stdout
        if "tables add" in text:
            wait_for(self.is_done, "the operation to succeed")

    def serve(self, text: str) -> None:
        with (self.folder / "serve.log").open("wb") as log:
            command = ["sh", "-c", f"exec {text}"]
            self.service = subprocess.Popen(command, cwd=self.project, env=self.environment, stdout=log, stderr=log)
        wait_for(self.answers, "the service to answer")

    def answers(self) -> bool:
        assert self.service is not None
        assert self.service.poll() is None, (self.folder / "serve.log").read_text()[-3000:]
        return self.lakehand("plugins") is not None

    def is_done(self) -> bool:
        found = self.lakehand("operations", "list")
        statuses = [one["status"] for one in found["items"]]
        assert not {"failed", "dropped"}.intersection(statuses), found
        return statuses == ["succeeded"]

    def lakehand(self, *words: str) -> Any:
        command = [sys.executable, "-m", "lakehand.cli", *words, "--json"]
        ran = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False)
        return json.loads(ran.stdout) if ran.returncode == 0 else None

    def leave(self) -> None:
        if self.service is not None:
            self.service.terminate()
            self.service.wait(60)
        RunningService(self.project / "home", self.project).kill_driver()


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    reader = Reader(tmp_path)
    yield reader
    reader.leave()


@pytest.mark.spark
@pytest.mark.long
def test_following_the_tutorial_gives_a_plugin_that_a_running_service_uses(reader: Reader) -> None:
    for block in blocks():
        reader.follow(block)

    assert "passed" in reader.output[f"cd {PROJECT}"]
    plugins = reader.output["lakehand plugins"]
    assert re.search(r"delta-checkpoint.*acme-delta-checkpoint.*0\.1\.0", plugins), plugins
    assert "0 of 10 commits since the last checkpoint" in reader.output["lakehand operations list"]
    assert (reader.project / "lake/orders/_delta_log/00000000000000000024.checkpoint.parquet").exists()


def test_every_block_of_the_tutorial_is_a_file_or_a_command() -> None:
    found = blocks()
    assert len(found) == TUTORIAL.count("\n```") / 2 == len([b for b in found if b.file or b.language == "sh"])
