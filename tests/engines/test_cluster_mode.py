# SPDX-License-Identifier: Apache-2.0
"""Cluster mode of the spark-submit engine: its settings, its command, and what YARN's client prints."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from lakehand.domain.errors import Invalid
from lakehand.engines.spark.command import Command
from lakehand.engines.spark_submit.settings import read_settings
from lakehand.engines.spark_submit.yarn import NOT_OVER, SharedFolder, Yarn, in_cluster_mode, parse_list

PRINTED = """Total number of applications (application-types: [], states: [RUNNING] and tags: [lakehand]):2
                Application-Id\t    Application-Name\t    Application-Type\t      User\t     Queue\t             State
application_1700000000000_0007\t     op-3-1-0a1b2c3d\t               SPARK\t      lake\t   default\t           RUNNING
application_1700000000000_0012\t     op-4-2-4d5e6f70\t               SPARK\t      lake\t   default\t          ACCEPTED
"""
NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")
CLUSTER = {"master": "yarn", "deploy-mode": "cluster", "shared-folder": "/mnt/lake"}


def test_client_mode_is_the_default_and_needs_no_folder() -> None:
    assert read_settings({"master": "yarn"}).shared_folder is None
    assert read_settings({**CLUSTER, "deploy-mode": "client"}).shared_folder is None


def test_cluster_mode_has_its_folder_and_its_python() -> None:
    settings = read_settings({**CLUSTER, "driver-python": "/opt/lake/bin/python"})
    assert (settings.shared_folder, settings.driver_python) == (Path("/mnt/lake"), "/opt/lake/bin/python")


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"deploy-mode": "remote"}, "client or cluster"),
        ({"master": "spark://one:7077"}, "needs the master yarn"),
        ({"master": "local[2]"}, "needs the master yarn"),
        ({"shared-folder": ""}, "needs shared-folder"),
        ({"shared-folder": "lake"}, "needs shared-folder"),
    ],
)
def test_cluster_mode_is_refused_where_it_cannot_work(changed: dict[str, str], reason: str) -> None:
    with pytest.raises(Invalid, match=reason):
        read_settings({**CLUSTER, **changed})


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    folder = tmp_path / "my lake"
    folder.mkdir(mode=0o700)
    return folder


def test_each_home_has_a_folder_of_its_own_that_keeps_its_name(tmp_path: Path, shared: Path) -> None:
    folder = SharedFolder(shared, tmp_path)

    assert folder.own == SharedFolder(shared, tmp_path).own
    assert (folder.own.parent, folder.own.stat().st_mode & 0o777) == (shared, 0o700)
    assert folder.problem() == ""


@pytest.mark.parametrize("name", ["absent", "file"])
def test_a_shared_folder_that_is_none_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(Invalid, match=rf"shared-folder {tmp_path}/{name} .* cannot be used: .*Mount storage there"):
        SharedFolder(tmp_path / name, tmp_path)


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o701])
def test_a_shared_folder_that_others_may_enter_is_refused_with_the_command_that_fixes_it(
    tmp_path: Path, shared: Path, mode: int
) -> None:
    shared.chmod(mode)

    assert_refused_until_fixed(tmp_path, shared, "is open to other users", "chmod")
    shared.chmod(0o700)
    SharedFolder(shared, tmp_path).own.chmod(mode)
    assert_refused_until_fixed(tmp_path, shared, "is open to other users", "chmod")


@as_root
def test_a_shared_folder_of_someone_else_is_refused_with_the_command_that_fixes_it(
    tmp_path: Path, shared: Path
) -> None:
    os.chown(shared, NOBODY, NOBODY)

    assert_refused_until_fixed(tmp_path, shared, f"belongs to user {NOBODY}", "chown")


def test_a_shared_folder_that_anybody_may_replace_is_refused_with_the_command_that_fixes_it(tmp_path: Path) -> None:
    inner = tmp_path / "all" / "inner"
    inner.mkdir(parents=True, mode=0o700)
    (tmp_path / "all").chmod(0o777)

    assert_refused_until_fixed(tmp_path, inner, "can be replaced by any user", "chmod o-w [^,]*")


@as_root
def test_a_shared_folder_that_is_a_link_of_someone_else_is_refused(tmp_path: Path, shared: Path) -> None:
    (tmp_path / "link").symlink_to(shared)
    SharedFolder(tmp_path / "link", tmp_path)  # one of our own is followed
    os.chown(tmp_path / "link", NOBODY, NOBODY, follow_symlinks=False)

    with pytest.raises(Invalid, match="is a link of another user"):
        SharedFolder(tmp_path / "link", tmp_path)


def assert_refused_until_fixed(home: Path, shared: Path, why: str, command: str) -> None:
    with pytest.raises(Invalid, match=why) as refusal:
        SharedFolder(shared, home)
    fix = re.search(command if "[" in command else f"{command} .*", str(refusal.value))
    assert fix is not None
    subprocess.run(fix[0], shell=True, check=True)
    SharedFolder(shared, home)


def test_the_command_leaves_the_driver_to_yarn_and_further_attempts_to_the_service() -> None:
    here = {"spark.driver.host": "lake", "spark.driver.bindAddress": "0.0.0.0", "spark.local.dir": "/tmp/x"}
    fixed = {"spark.submit.deployMode": "client", "spark.pyspark.driver.python": "/usr/bin/python3"}
    command = Command(
        arguments=["spark-submit", "driver.py", "--once"], environment={}, properties={**here, **fixed, "spark.a": "b"},
        properties_file=Path("spark.properties"),
    )  # fmt: skip
    changed = in_cluster_mode(command, "/opt/lake/bin/python")

    assert changed.arguments == ["spark-submit", "driver.py", "--once", "--remote"]
    assert changed.properties == {
        "spark.a": "b",
        "spark.pyspark.driver.python": "/opt/lake/bin/python",
        "spark.submit.deployMode": "cluster",
        "spark.yarn.maxAppAttempts": "1",
        "spark.yarn.submit.waitAppCompletion": "false",
    }


def test_the_list_of_yarns_client_is_read_by_name() -> None:
    assert parse_list(PRINTED) == {
        "op-3-1-0a1b2c3d": "application_1700000000000_0007",
        "op-4-2-4d5e6f70": "application_1700000000000_0012",
    }


def test_an_application_is_killed_by_its_id_and_one_that_is_over_is_left_alone() -> None:
    asked: list[tuple[str, ...]] = []

    def run(*arguments: str) -> str:
        asked.append(arguments)
        return PRINTED

    yarn = Yarn(run)
    yarn.kill("op-4-2-4d5e6f70")
    yarn.kill("op-9-1-00000000")

    listing = ("application", "-list", "-appTags", "lakehand", "-appStates", NOT_OVER)
    assert asked == [listing, ("application", "-kill", "application_1700000000000_0012"), listing]
