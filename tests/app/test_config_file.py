# SPDX-License-Identifier: Apache-2.0
"""Which lakehand.toml is used, that it is told, and that nobody else can have written it."""

import logging
import os
from pathlib import Path

import pytest

from lakehand.app.server import report_config
from lakehand.app.settings import Settings, load
from lakehand.domain.errors import Invalid
from lakehand.local.reader import open_reader

NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder of a user whose home is empty."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in (*Settings.model_fields, "config", "warehouse"):
        monkeypatch.delenv(f"LAKEHAND_{name.upper()}", raising=False)
    return tmp_path / "here"


def config(folder: Path, text: str = "port = 1", mode: int = 0o600) -> Path:
    folder.mkdir(exist_ok=True, mode=0o700)
    file = folder / "lakehand.toml"
    file.write_text(text)
    file.chmod(mode)
    return file


def reported(settings: Settings, caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    with caplog.at_level(logging.INFO):
        report_config(settings)
    return [(record.levelname, record.getMessage()) for record in caplog.records]


def test_the_file_that_is_used_is_logged(here: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = config(here)

    assert reported(load(), caplog) == [("INFO", f"the settings come from {file}")]
    assert load().port == 1


def test_that_no_file_is_used_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    assert reported(load(), caplog) == [("INFO", "no lakehand.toml is used")]


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_here_that_others_may_write_is_ignored_and_named(
    here: Path, mode: int, caplog: pytest.LogCaptureFixture
) -> None:
    file = config(here, mode=mode)

    settings = load()

    assert settings.port == 9091
    warning, line = reported(settings, caplog)
    assert warning[0] == "WARNING"
    assert f"{file} is ignored, because other users may write to it (chmod go-w {file})" in warning[1]
    assert line == ("INFO", "no lakehand.toml is used")


@as_root
def test_a_file_here_of_someone_else_is_ignored_and_named(here: Path) -> None:
    file = config(here)
    os.chown(file, NOBODY, NOBODY)

    settings = load()

    assert settings.port == 9091
    assert settings.config.warnings[0].startswith(f"{file} is ignored, because it belongs to user {NOBODY}")
    assert list(open_reader().problems()) == list(settings.config.warnings), "lakehand check says so, too"


@as_root
def test_a_file_of_someone_else_is_used_when_it_is_named(here: Path) -> None:
    file = config(here)
    os.chown(file, NOBODY, NOBODY)

    assert load(config=file).port == 1


@as_root
def test_a_file_of_someone_else_in_home_stops_the_start(tmp_path: Path) -> None:
    file = config(tmp_path / "home")
    os.chown(file, NOBODY, NOBODY)

    with pytest.raises(Invalid, match=f"{file} is not used, because it belongs to user {NOBODY}"):
        load({"home": tmp_path / "home"})


def test_a_file_that_the_group_may_write_is_used_in_a_home_that_the_group_cannot_enter(tmp_path: Path) -> None:
    file = config(tmp_path / "home", mode=0o664)
    assert load({"home": tmp_path / "home"}).config.file == file

    file.parent.chmod(0o755)
    with pytest.raises(Invalid, match="other users may write to it"):
        load({"home": tmp_path / "home"})


SECRETS = [
    'wire-token = "hush"',
    '[tokens]\nann = "hush"',
    'database = "postgresql://ann:hush@h/d"',
    '[spark]\n"spark.hadoop.fs.s3a.secret.key" = "hush"',
    '[catalogs.lake]\ntype = "jdbc"\nproperties = { "jdbc.password" = "hush" }',
]


@pytest.mark.parametrize("text", SECRETS)
def test_secrets_that_others_may_read_are_reported_and_not_shown(here: Path, text: str) -> None:
    from lakehand.app.config_file import exposed_secrets, read_config

    file = config(here, text, mode=0o644)

    sentence = exposed_secrets(file, read_config(file))
    assert sentence == f"{file} holds secrets, and other users may read it: chmod 600 {file}"
    file.chmod(0o600)
    assert exposed_secrets(file, read_config(file)) == ""


def test_a_file_without_secrets_may_be_read(here: Path) -> None:
    config(here, 'database = "postgresql://h/d"\nwarehouses = ["/data"]\n', mode=0o644)

    assert load().config.warnings == ()
