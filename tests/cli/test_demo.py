# SPDX-License-Identifier: Apache-2.0
"""The demo: how it counts files, and the whole of it, as a person starts it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from lakehand.cli.demo.picture import Files, Picture, count, opened, pending
from lakehand.cli.demo.result import promises
from tests.cli.pictures import a_picture

GROUP, OTHER = "7a4f38ff-0", "5c03d414-0"


def base(group: str, instant: str) -> str:
    return f"{group}_0-18-16_{instant}.parquet"


def log(group: str, instant: str) -> str:
    return f".{group}_{instant}.log.1_0-122-270"


def test_a_query_opens_the_newest_base_file_and_the_logs_after_it() -> None:
    names = [base(GROUP, "100"), log(GROUP, "110"), log(GROUP, "120"), base(GROUP, "115"), base(OTHER, "100")]

    assert opened(names, gone=set()) == (2, 1)


def test_a_query_opens_nothing_of_a_replaced_group() -> None:
    assert opened([base(GROUP, "100"), log(GROUP, "110"), base(OTHER, "120")], gone={GROUP}) == (1, 0)


def test_a_plan_is_pending_until_its_completed_file_is_there() -> None:
    timeline = ["100.compaction.requested", "100_105.commit", "110.clustering.requested", "120.deltacommit.requested"]

    assert pending(timeline) == {"110"}


def test_checksum_files_are_no_data(tmp_path: Path) -> None:
    (tmp_path / ".hoodie" / "timeline").mkdir(parents=True)
    for name in (base(GROUP, "100"), f".{base(GROUP, '100')}.crc", log(GROUP, "110"), f".{log(GROUP, '110')}.crc"):
        (tmp_path / name).write_text("1234")

    assert count(tmp_path) == Files(stored=2, bytes=8, base_opened=1, logs_opened=1, pending=0)


@pytest.mark.parametrize(
    ("statuses", "after", "broken"),
    [
        (["succeeded"], a_picture(files=1), []),
        (["failed"], a_picture(files=1), ["every operation succeeded"]),
        ([], a_picture(files=1), ["every operation succeeded"]),
        (["succeeded"], a_picture(files=1, checksum="other"), ["all rows are equal"]),
        (["succeeded"], a_picture(files=9), ["fewer files"]),
        (["succeeded"], a_picture(files=1, pending=1), ["no plan is left"]),
    ],
)
def test_a_broken_promise_is_seen(statuses: list[str], after: Picture, broken: list[str]) -> None:
    made = promises({"t": a_picture(files=9)}, {"t": after}, {"t": statuses}, told=True)

    failed = [promise.text for promise in made if not promise.is_kept]
    assert len(failed) == len(broken)
    assert all(word in text for word, text in zip(broken, failed, strict=True))


def start_demo(tmp_path: Path, *words: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "lakehand.cli", "demo", *words],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, "TMPDIR": str(tmp_path)},
    )  # fmt: skip


def processes_of(folder: Path) -> list[int]:
    found = psutil.process_iter(["pid", "cmdline"])
    return [p.info["pid"] for p in found if any(str(folder) in word for word in p.info["cmdline"] or [])]


@pytest.mark.spark
def test_the_demo_keeps_its_promises_and_leaves_nothing_behind(tmp_path: Path) -> None:
    with start_demo(tmp_path) as demo:
        output = demo.communicate(timeout=590)[0]

    assert demo.returncode == 0, output
    assert "everything is as promised" in output
    assert "BROKEN" not in output
    for action in ("compaction", "clustering", "clean"):
        assert f"{action} is needed" in output
    assert list(tmp_path.glob("lakehand-demo-*")) == []
    assert processes_of(tmp_path) == []


@pytest.mark.spark
def test_a_demo_that_is_stopped_ends_what_it_started_and_keeps_the_logs(tmp_path: Path) -> None:
    with start_demo(tmp_path) as demo:
        assert demo.stdout is not None
        for line in demo.stdout:
            if "both tables are registered" in line:
                break
        demo.send_signal(signal.SIGINT)
        output = demo.communicate(timeout=120)[0]

    assert demo.returncode == 130, output
    [home] = tmp_path.glob("lakehand-demo-*")
    assert str(home) in output
    assert (home / "service" / "service.log").exists()
    assert processes_of(tmp_path) == []
