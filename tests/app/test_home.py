# SPDX-License-Identifier: Apache-2.0
"""A home is its user's alone, and no table and no warehouse has anything to do with it."""

import os
import re
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lakehand.app import wiring
from lakehand.app.home import own_paths, owner_only_files, prepare_database_file, prepare_home, take_identity
from lakehand.app.locations import keep_apart, path_guard, warehouses_of
from lakehand.app.settings import Settings, load
from lakehand.app.wiring import Service
from lakehand.domain.errors import Conflict, Invalid, LakehandError, LocationRefused, Unavailable
from lakehand.domain.tables import Format, TableSpec
from tests.small_tables import delta

NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_home_is_for_its_owner_alone(tmp_path: Path) -> None:
    prepare_home(tmp_path / "a" / "home")

    assert mode(tmp_path / "a" / "home") == 0o700


@pytest.mark.parametrize("open_mode", [0o777, 0o770, 0o750, 0o755, 0o701])
def test_a_home_that_others_may_enter_is_refused_with_the_command_that_fixes_it(tmp_path: Path, open_mode: int) -> None:
    home = tmp_path / "my home"
    home.mkdir()
    home.chmod(open_mode)

    with pytest.raises(Invalid, match="open to other users") as refusal:
        take_identity(home)
    command = re.search(r"chmod .*", str(refusal.value))
    assert command is not None
    subprocess.run(command[0], shell=True, check=True)
    take_identity(home).release()


@as_root
def test_a_home_of_someone_else_is_refused_with_the_command_that_fixes_it(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    os.chown(home, NOBODY, NOBODY)

    with pytest.raises(Invalid, match=f"belongs to user {NOBODY}") as refusal:
        take_identity(home)
    command = re.search(r"chown .*", str(refusal.value))
    assert command is not None
    subprocess.run(command[0], shell=True, check=True)
    take_identity(home).release()


@as_root
def test_a_home_that_is_a_link_of_someone_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "home").symlink_to(tmp_path / "real")
    os.chown(tmp_path / "home", NOBODY, NOBODY, follow_symlinks=False)

    with pytest.raises(Invalid, match="a link of another user"):
        prepare_home(tmp_path / "home")


def test_a_home_that_anybody_may_replace_is_refused(tmp_path: Path) -> None:
    (tmp_path / "all" / "inner").mkdir(parents=True)
    (tmp_path / "all").chmod(0o777)

    with pytest.raises(Invalid, match=rf"chmod o-w {tmp_path}/all"):
        prepare_home(tmp_path / "all" / "inner" / "home")
    (tmp_path / "all").chmod(0o1777)
    prepare_home(tmp_path / "all" / "inner" / "home")


def test_a_home_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for home in (tmp_path / "file", tmp_path / "file" / "home", Path("/proc/lakehand")):
        with pytest.raises(Unavailable, match=rf"the home {home} cannot be used: .*give --home a folder"):
            take_identity(home)


def test_a_home_that_cannot_be_written_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)  # what a read-only file system says, to root as well

    with pytest.raises(Unavailable, match=r"cannot be written, or its file system is read-only; give --home"):
        take_identity(tmp_path)


def test_the_database_and_what_is_made_beside_it_are_for_their_owner_alone(tmp_path: Path) -> None:
    settings = load({"home": tmp_path / "home"})
    wiring.migrated(settings).release()

    assert mode(settings.home / "lakehand.db") == 0o600


def test_a_database_that_others_could_read_no_longer_can(tmp_path: Path) -> None:
    file = tmp_path / "x.db"
    file.touch(mode=0o644)
    prepare_database_file(f"sqlite:///{file}")

    assert mode(file) == 0o600


def test_a_database_that_others_may_write_to_is_refused_with_the_command_that_fixes_it(tmp_path: Path) -> None:
    file = tmp_path / "x.db"
    file.touch()
    file.chmod(0o666)

    with pytest.raises(Invalid, match=rf"chmod 600 {file}"):
        prepare_database_file(f"sqlite:///{file}")


def test_a_database_that_anybody_may_replace_is_refused(tmp_path: Path) -> None:
    (tmp_path / "all").mkdir()
    (tmp_path / "all").chmod(0o777)

    with pytest.raises(Invalid, match=rf"the database .* can be replaced by any user.*chmod o-w {tmp_path}/all"):
        prepare_database_file(f"sqlite:///{tmp_path}/all/x.db")
    assert not (tmp_path / "all" / "x.db").exists()


def test_files_of_the_service_are_for_its_owner_and_files_of_tables_are_as_they_were(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        with owner_only_files() as umask:
            (tmp_path / "ours").touch()
            subprocess.run(["touch", str(tmp_path / "tables")], check=True, umask=umask)
        (tmp_path / "after").touch()
    finally:
        os.umask(before)

    assert [mode(tmp_path / name) for name in ("ours", "tables", "after")] == [0o600, 0o644, 0o644]


def settings_with(home: Path, warehouse: Path, **flags: object) -> Settings:
    return load({"home": home, "warehouses": [str(warehouse)], **flags})


Overlap = Callable[[Path], Settings]
OVERLAPS: dict[str, Overlap] = {
    "a home in a warehouse": lambda at: settings_with(at / "lake" / "home", at / "lake"),
    "a home that is a warehouse": lambda at: settings_with(at / "lake", at / "lake"),
    "a warehouse in a home": lambda at: settings_with(at / "home", at / "home" / "lake"),
    "jars in a warehouse": lambda at: settings_with(at / "home", at / "lake", jars=at / "lake" / "jars"),
    "a warehouse in the jars": lambda at: settings_with(at / "home", at / "jars" / "lake", jars=at / "jars"),
    "a database in a warehouse": lambda at: settings_with(
        at / "home", at / "lake", database=f"sqlite:///{at}/lake/lakehand.db"
    ),
    "a home behind a link in a warehouse": lambda at: settings_with(at / "link" / "home", at / "lake"),
    "a warehouse behind a link in a home": lambda at: settings_with(at / "lake", at / "link" / "inner"),
}


@pytest.mark.parametrize("overlap", OVERLAPS.values(), ids=list(OVERLAPS))
def test_what_lakehand_lives_in_and_warehouses_are_apart(tmp_path: Path, overlap: Overlap) -> None:
    (tmp_path / "lake").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "lake")
    settings = overlap(tmp_path)

    with pytest.raises(Invalid, match=r"overlap: choose another --home"):
        wiring.migrated(settings)
    take_identity(settings.home).release()  # the lock was given back


def test_a_refused_overlap_leaves_no_database_behind(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    settings = settings_with(tmp_path / "home", tmp_path / "lake", database=f"sqlite:///{tmp_path}/lake/x.db")

    with pytest.raises(Invalid):
        wiring.migrated(settings)
    assert list((tmp_path / "lake").iterdir()) == []


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    (tmp_path / "lake").mkdir()
    settings = settings_with(tmp_path / "home", tmp_path / "lake")
    built = wiring.build(settings, wiring.migrated(settings))
    yield built
    built.stop()


@pytest.mark.parametrize("inside", ["", "engines", "engines/spark/spool"])
def test_a_link_to_the_home_is_no_table(service: Service, tmp_path: Path, inside: str) -> None:
    (tmp_path / "lake" / "t").symlink_to(tmp_path / "home" / inside)

    with pytest.raises(LocationRefused):
        service.tables.register(TableSpec(location=str(tmp_path / "lake" / "t"), format=Format("delta")))


def test_a_folder_that_holds_the_home_or_lies_in_it_is_no_table_even_in_a_warehouse(tmp_path: Path) -> None:
    """Links and mounts may change after the start, so that the check does not rest on what was true then."""
    (tmp_path / "lake" / "outer" / "home" / "inner").mkdir(parents=True)
    home = os.path.realpath(tmp_path / "lake" / "outer" / "home")
    check = path_guard(warehouses_of([str(tmp_path / "lake")]), [home])

    for location in (tmp_path / "lake" / "outer", Path(home), Path(home) / "inner"):
        with pytest.raises(LocationRefused, match="Lakehand keeps its own files in"):
            check(str(location))
    check(str(tmp_path / "lake" / "other"))


def test_a_bucket_and_a_home_never_overlap(tmp_path: Path) -> None:
    keep_apart(warehouses_of(["s3://lake"]), own_paths(load({"home": tmp_path / "home"})))


def test_the_home_is_taken_before_its_database_is_migrated(service: Service, tmp_path: Path) -> None:
    """A second start must not change the schema under a service that runs."""
    database = tmp_path / "other" / "x.db"
    database.parent.mkdir()
    second = settings_with(tmp_path / "home", tmp_path / "lake", database=f"sqlite:///{database}")

    with pytest.raises(Conflict, match="another Lakehand runs"):
        wiring.migrated(second)
    assert not database.exists()


def test_a_table_in_the_configured_home_is_not_maintained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lakehand.local.discovery import DiscoveredTable
    from lakehand.local.maintain import refuse_own_files
    from lakehand.local.reader import reader_of

    monkeypatch.setenv("LAKEHAND_HOME", str(tmp_path / "home"))
    reader = reader_of({})
    for folder, is_refused in ((tmp_path / "home" / "t", True), (tmp_path / "lake" / "t", False)):
        [found] = reader.finder().under(str(delta(folder, commits=1)))
        assert isinstance(found, DiscoveredTable)
        try:
            refuse_own_files(found, reader)
            refused = False
        except LakehandError:
            refused = True
        assert refused is is_refused
