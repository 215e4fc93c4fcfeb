# SPDX-License-Identifier: Apache-2.0
"""Only regular files are read, within bounds: nothing in a table's folder makes a reader wait or fills the memory."""

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lakehand.storage import LocalStorage, TooLarge
from lakehand.storage.storages import read_regular


@pytest.fixture
def storage() -> LocalStorage:
    return LocalStorage()


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as made:
        yield made


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (os.mkfifo, "a pipe"),
        (lambda path: path.symlink_to("/dev/zero"), "a link"),
        (lambda path: path.symlink_to("/etc/hostname"), "a link"),
        (lambda path: path.symlink_to("nowhere"), "a link"),
        (lambda path: path.symlink_to(path), "a link"),
    ],
)
def test_what_is_no_regular_file_is_refused_at_once(
    storage: LocalStorage, tmp_path: Path, make: Callable[[Path], None], kind: str
) -> None:
    odd = tmp_path / "odd"
    make(odd)
    for read in (storage.read, storage.open):
        with pytest.raises(OSError, match=f"{odd} is {kind}; Lakehand reads regular files only"):
            read(str(odd))


def test_a_socket_is_refused(storage: LocalStorage, tmp_path: Path, listening: socket.socket) -> None:
    listening.bind(str(tmp_path / "odd"))
    with pytest.raises(OSError, match="is a socket"):
        storage.read(str(tmp_path / "odd"))


def test_a_device_is_refused(storage: LocalStorage) -> None:
    with pytest.raises(OSError, match="/dev/zero is a device"):
        storage.read("/dev/zero")


def test_a_missing_file_and_a_folder_raise_their_own_errors(storage: LocalStorage, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    with pytest.raises(FileNotFoundError):
        storage.read(str(tmp_path / "none"))
    with pytest.raises(NotADirectoryError):
        storage.read(str(tmp_path / "file" / "none"))
    with pytest.raises(IsADirectoryError):
        storage.read(str(tmp_path))


def test_a_table_that_is_a_link_or_lies_below_one_is_read(storage: LocalStorage, tmp_path: Path) -> None:
    (tmp_path / "real" / "meta").mkdir(parents=True)
    (tmp_path / "real" / "meta" / "file").write_bytes(b"content")
    (tmp_path / "table").symlink_to(tmp_path / "real")
    assert storage.read(str(tmp_path / "table" / "meta" / "file")) == b"content"
    assert storage.contents(str(tmp_path / "table")) == ([], ["meta"])
    assert [entry.name for entry in storage.below(str(tmp_path / "table"))] == ["meta/file"]


def test_a_file_with_more_bytes_than_the_limit_is_refused_before_it_is_read(
    storage: LocalStorage, tmp_path: Path
) -> None:
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(1024**4)  # a terabyte of nothing: it takes no room on the disk
    with pytest.raises(TooLarge, match=f"{large} has {1024**4} bytes; more than 268435456 are not read"):
        storage.read(str(large))
    (tmp_path / "small").write_bytes(b"12345")
    assert storage.read(str(tmp_path / "small"), limit=5) == b"12345"
    with pytest.raises(TooLarge, match="has 5 bytes; more than 4 are not read"):
        storage.read(str(tmp_path / "small"), limit=4)


def test_a_file_that_grows_while_it_is_read_is_refused_at_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    growing = tmp_path / "growing"
    growing.write_bytes(b"x")
    read = os.read

    def grow(descriptor: int, size: int) -> bytes:
        with growing.open("ab") as file:
            file.write(b"x" * 10)
        return read(descriptor, size)

    monkeypatch.setattr(os, "read", grow)
    with pytest.raises(TooLarge, match="grows while it is read; more than 20 bytes are not read"):
        read_regular(str(growing), 20)


def test_a_file_whose_size_is_not_known_beforehand_is_read_whole() -> None:
    assert b"VmPeak" in read_regular("/proc/self/status", 100_000)


def test_no_listing_follows_a_link(storage: LocalStorage, tmp_path: Path) -> None:
    (tmp_path / "elsewhere" / "inner").mkdir(parents=True)
    (tmp_path / "elsewhere" / "inner" / "victim").write_bytes(b"x")
    table = tmp_path / "table"
    (table / "own").mkdir(parents=True)
    (table / "own" / "file").write_bytes(b"12345")
    (table / "more").symlink_to(tmp_path / "elsewhere")
    (table / "gone").symlink_to("nowhere")
    (table / "self").symlink_to(table)
    os.mkfifo(table / "pipe")
    odd = ["gone", "more", "pipe", "self"]
    assert storage.folders(str(table)) == ["own"]
    files, folders = storage.contents(str(table))
    assert (sorted(files), folders) == (odd, ["own"])
    assert sorted(entry.name for entry in storage.entries(str(table))) == odd
    assert sorted(entry.name for entry in storage.below(str(table))) == sorted([*odd, "own/file"])
    assert storage.change_token(str(table / "gone")) != "absent", "a link is there, wherever it leads"


def test_odd_files_are_found_for_libraries_that_open_files_themselves(storage: LocalStorage, tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "file").write_bytes(b"x")
    assert storage.odd_file(str(tmp_path)) is None
    assert storage.odd_file(str(tmp_path / "none")) is None
    os.mkfifo(tmp_path / "a" / "b" / "pipe")
    assert storage.odd_file(str(tmp_path)) == f"{tmp_path}/a/b/pipe is a pipe"
