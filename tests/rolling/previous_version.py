# SPDX-License-Identifier: Apache-2.0
"""The version before this one, from the history of the repository: for tests in which both share a database."""

import subprocess
from pathlib import Path

import pytest

from lakehand.app.config_file import toml

# The newest commit from which a rolling upgrade to this version is promised. CONTRIBUTING.md says when to change it.
COMMIT = "41813ab67dbe2c02acf48e7057962b657a6a19cb"
ROOT = Path(__file__).parents[2]


def unpack_previous(folder: Path) -> Path:
    """The source of the previous version; the test is skipped where the history does not have it."""
    if git("cat-file", "-e", f"{COMMIT}^{{commit}}").returncode != 0:
        pytest.skip(f"the history has no commit {COMMIT[:7]}: fetch all of it with git fetch --unshallow")
    return unpack_commit(COMMIT, folder)


def unpack_commit(commit: str, folder: Path) -> Path:
    archive = folder / "previous.tar"
    git("archive", "--output", str(archive), commit, "src", "pyproject.toml").check_returncode()
    subprocess.run(["tar", "-xf", archive.name], cwd=folder, check=True)
    source = folder / "src"
    declare_plugins(source, toml.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"])
    return source


def git(*words: str) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, check=False)
    except FileNotFoundError:
        pytest.skip("git is not installed")


def declare_plugins(source: Path, project: dict[str, object]) -> None:
    """What an installation would write: the previous version must not find the plugins of this one."""
    info = source / f"lakehand-{project.get('version', 0)}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lakehand\nVersion: 0\n", encoding="utf-8")
    groups = project["entry-points"]
    assert isinstance(groups, dict)
    lines = [
        line for group, entries in groups.items()
        for line in (f"[{group}]", *(f"{name} = {value}" for name, value in entries.items()))
    ]  # fmt: skip
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
