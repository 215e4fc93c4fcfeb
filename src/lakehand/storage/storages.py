# SPDX-License-Identifier: Apache-2.0
"""Reading files where a table lives: the operating system's own calls on this machine, pyarrow everywhere else.

On this machine regular files only: pipes, devices and links are refused, and never waited for.
"""

import errno
import os
import stat
import time
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from stat import S_IFMT
from threading import Lock
from typing import Any, ClassVar
from urllib.parse import urlencode, urlsplit

from lakehand.domain.errors import Invalid
from lakehand.storage.boundaries import ALIASES, WITHIN, ReadBoundary, check_path
from lakehand.storage.bounds import LARGEST, TooLarge, refuse_giants
from lakehand.storage.object_stores import ATTEMPTS, S3, SECONDS_TO_ANSWER, SECONDS_TO_CONNECT, S3Options, s3_options

FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFLNK: "a link",
}
MODIFIED = "Last-Modified"
NO_ROOM = "Failed to flush response stream"  # what pyarrow says of an answer that is longer than the file
PAUSES = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4)  # seconds
ABSENT = "absent"  # the sign of a file that is not there
MOST_BY_NAME = 4  # versions that are asked for one by one; after more a listing is cheaper


def open_regular(path: str) -> tuple[int, int]:
    """A descriptor, and the size of the file. O_NONBLOCK: opening a pipe must not wait for someone to write to it."""
    try:
        descriptor = os.open(path, FLAGS)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise odd(path, kind_of(path)) from error
        raise
    found = os.fstat(descriptor)
    if stat.S_ISREG(found.st_mode):
        return descriptor, found.st_size
    os.close(descriptor)
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    raise odd(path, KINDS.get(stat.S_IFMT(found.st_mode), "no file"))


def read_regular(path: str, limit: int) -> bytes:
    """The whole file, unless it has more bytes than the limit: before it is read, or because it grows meanwhile."""
    descriptor, size = open_regular(path)
    try:
        refuse_giants(path, size, limit)
        content = os.read(descriptor, size + 1)
        while more := os.read(descriptor, limit + 1 - len(content) if len(content) <= limit else 1):
            content += more
            if len(content) > limit:
                raise TooLarge(f"{path} grows while it is read; more than {limit} bytes are not read")
        return content
    finally:
        os.close(descriptor)


def kind_of(path: str) -> str:
    return KINDS.get(stat.S_IFMT(os.lstat(path).st_mode), "behind too many links")


def odd(path: str, kind: str) -> OSError:
    return OSError(f"{path} is {kind}; Lakehand reads regular files only, and follows no link below a table")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A file in a folder."""

    name: str
    size: int
    modified: datetime

    @property
    def sign(self) -> str:
        """In an object store what ``Storage.sign`` says of the file."""
        return sign_of(self.modified, self.size)


class Storage(ABC):
    """Read-only, safe to share between threads. Whatever fails is an OSError.

    Only regular files are read. Links, pipes and devices are listed as files, with their own size, and refused when
    they are opened; a listing follows no link.
    """

    is_local: ClassVar[bool] = False

    def bound(self, folders: Sequence[str]) -> None:
        """Read only below these paths from now on."""

    @abstractmethod
    def names(self, folder: str) -> list[str]:
        """File names in a folder, by the fewest calls."""

    @abstractmethod
    def entries(self, folder: str) -> list[Entry]: ...

    @abstractmethod
    def folders(self, folder: str) -> list[str]:
        """Names of the folders in a folder. Links lead to no folder."""

    @abstractmethod
    def contents(self, folder: str) -> tuple[list[str], list[str]]:
        """Names of the files and names of the folders in a folder, by one listing. Links lead to no folder."""

    @abstractmethod
    def below(self, folder: str) -> list[Entry]:
        """The files in a folder and in all folders below it, named by their paths from there; none of hidden folders.

        A folder is hidden when its name begins with a dot.
        """

    @abstractmethod
    def read(self, path: str, *, limit: int = LARGEST) -> bytes:
        """The whole file; one with more bytes than the limit is an OSError."""

    @abstractmethod
    def open(self, path: str) -> Any:
        """A seekable binary file."""

    def odd_file(self, folder: str) -> str | None:
        """The first file in a folder or below it that is not regular, and what it is: for libraries that open files
        themselves. None where there is none, no such folder, or no such thing as an odd file."""
        return None

    def change_token(self, path: str) -> str:
        """A sign that a file was replaced, where asking for one costs next to nothing; otherwise empty."""
        return ""

    def sign(self, path: str) -> str:
        """As ``change_token``, and by one request where that is not a system call; ``ABSENT`` without the file."""
        return self.change_token(path)

    def exists(self, path: str) -> bool:
        try:
            self.open(path).close()
        except FileNotFoundError:
            return False
        return True


class LocalStorage(Storage):
    is_local = True

    def __init__(self, boundary: ReadBoundary | None = None) -> None:
        self._boundary = boundary

    def _folder(self, folder: str) -> str:
        """The folder, if it may be read."""
        if self._boundary is not None:
            self._boundary.check_folder(folder)
        return folder

    def _file(self, path: str) -> str:
        """The path, if a file there may be read."""
        if self._boundary is not None:
            self._boundary.check(path)
        return path

    def names(self, folder: str) -> list[str]:
        return os.listdir(self._folder(folder))  # noqa: PTH208 - a tenth of the time of Path.iterdir, for thousands of tables

    def entries(self, folder: str) -> list[Entry]:
        with os.scandir(self._folder(folder)) as found:
            return [local_entry(entry) for entry in found if not entry.is_dir(follow_symlinks=False)]

    def folders(self, folder: str) -> list[str]:
        return self.contents(folder)[1]

    def contents(self, folder: str) -> tuple[list[str], list[str]]:
        files: list[str] = []
        folders: list[str] = []
        with os.scandir(self._folder(folder)) as found:
            for entry in found:
                (folders if entry.is_dir(follow_symlinks=False) else files).append(entry.name)
        return files, folders

    def below(self, folder: str) -> list[Entry]:
        found: list[Entry] = []
        waiting = [""]
        self._folder(folder)
        while waiting:
            inside = waiting.pop()
            with os.scandir(f"{folder}/{inside}") as entries:
                for entry in entries:
                    if not entry.is_dir(follow_symlinks=False):
                        found.append(local_entry(entry, inside))
                    elif not entry.name.startswith("."):
                        waiting.append(f"{inside}{entry.name}/")
        return found

    def read(self, path: str, *, limit: int = LARGEST) -> bytes:
        return read_regular(self._file(path), limit)

    def open(self, path: str) -> Any:
        return os.fdopen(open_regular(self._file(path))[0], "rb")

    def odd_file(self, folder: str) -> str | None:
        waiting = [self._folder(folder)]
        while waiting:
            inside = waiting.pop()
            for entry in scan(inside):
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                elif not entry.is_file(follow_symlinks=False):
                    mode = entry.stat(follow_symlinks=False).st_mode
                    return f"{entry.path} is {KINDS.get(S_IFMT(mode), 'no file')}"
        return None

    def change_token(self, path: str) -> str:
        try:
            found = os.lstat(self._file(path))
        except FileNotFoundError:
            return ABSENT
        return f"{found.st_mtime_ns}:{found.st_size}"

    def exists(self, path: str) -> bool:
        return self.change_token(path) != ABSENT


class ArrowStorage(Storage):
    """Object stores and HDFS."""

    def __init__(self, filesystem: Any) -> None:
        self._filesystem = filesystem
        self._folders: Sequence[str] | None = None  # None: everything may be read

    def bound(self, folders: Sequence[str]) -> None:
        self._folders = folders

    def _checked(self, path: str) -> str:
        """The path, if it may be read."""
        if self._folders is not None:
            check_path(path, self._folders)
        return path

    def names(self, folder: str) -> list[str]:
        return self.contents(folder)[0]

    def entries(self, folder: str) -> list[Entry]:
        return [arrow_entry(info) for info in self._list(folder)[0]]

    def folders(self, folder: str) -> list[str]:
        return self.contents(folder)[1]

    def contents(self, folder: str) -> tuple[list[str], list[str]]:
        files, folders = self._list(folder)
        return [str(info.base_name) for info in files], [str(info.base_name) for info in folders]

    def below(self, folder: str) -> list[Entry]:
        entries = (arrow_entry(info, folder) for info in self._list(folder, recursive=True)[0])
        return [entry for entry in entries if not is_hidden(entry.name)]

    def _list(self, folder: str, *, recursive: bool = False) -> tuple[list[Any], list[Any]]:
        """Files, and folders."""
        from pyarrow import fs  # costs 60 ms, and tables on this machine do not need it

        found = self._filesystem.get_file_info(fs.FileSelector(self._checked(folder), recursive=recursive))
        files = [info for info in found if info.type == fs.FileType.File]
        return files, [info for info in found if info.type == fs.FileType.Directory]

    def read(self, path: str, *, limit: int = LARGEST) -> bytes:
        """Repeated where pyarrow gives up too early: a file that is smaller than the error which the busy store sends
        instead of it has no room for that, and this counts as a failure of the client, which is not repeated."""
        for pause in PAUSES:
            try:
                return self._read_once(path, limit)
            except OSError as error:
                if NO_ROOM not in str(error):
                    raise
            time.sleep(pause)
        return self._read_once(path, limit)

    def _read_once(self, path: str, limit: int) -> bytes:
        with self.open(path) as file:
            refuse_giants(path, file.size(), limit)
            return bytes(file.read(limit + 1))

    def open(self, path: str) -> Any:
        return self._filesystem.open_input_file(self._checked(path))

    def sign(self, path: str) -> str:
        """Opening an object is one HEAD, with the time in its answer; to ask for its info is a listing more if it is
        absent."""
        try:
            with self.open(path) as file:
                modified = (file.metadata() or {}).get(MODIFIED)
                if modified is not None:
                    return sign_of(datetime.fromisoformat(modified.decode().replace("Z", "+00:00")), file.size())
        except FileNotFoundError:
            return ABSENT
        info = self._filesystem.get_file_info(path)
        return sign_of(info.mtime, info.size) if info.size is not None else ABSENT


class Storages:
    """The storage of each location; one client per scheme and authority, made at first use.

    With the property ``storage.within`` nothing outside of these warehouses is read: each call of a storage checks its
    path, whoever made it up.
    """

    def __init__(self, properties: Mapping[str, str]) -> None:
        within = properties.get(WITHIN)
        self.boundary = None if within is None else ReadBoundary.of(within)
        self._properties = {key: value for key, value in properties.items() if key != WITHIN}
        self._local = LocalStorage(self.boundary)
        self._remote: dict[tuple[str, str], tuple[Storage, str]] = {}
        # One for each: a store that hangs while it is opened stops no other.
        self._locks: dict[tuple[str, str], Lock] = defaultdict(Lock)

    def of(self, location: str) -> tuple[Storage, str]:
        """The storage, and the location's path within it."""
        if location.startswith("/"):
            return self._local, location
        parts = urlsplit(location)
        if parts.scheme == "file":
            return self._local, parts.path
        scheme = ALIASES.get(parts.scheme, parts.scheme)
        if self.boundary is None:
            storage, root = self._shared(scheme, parts.netloc)
        else:
            self.boundary.check(location)  # before anybody connects to a store that metadata names
            storage, root = self._shared(scheme, parts.netloc)
            storage.bound([root + path for path in self.boundary.paths_in(scheme, parts.netloc)])
        return storage, root + parts.path

    def _shared(self, scheme: str, authority: str) -> tuple[Storage, str]:
        key = scheme, authority
        known = self._remote.get(key)
        if known is not None:
            return known
        with self._locks[key]:
            if key not in self._remote:
                self._remote[key] = self._connect(scheme, authority)
            return self._remote[key]

    def _connect(self, scheme: str, authority: str) -> tuple[Storage, str]:
        """Other stores than S3: properties such as ``gs.x`` become parameters of the URI, as pyarrow takes them."""
        from pyarrow import fs, lib

        if scheme == S3:
            return ArrowStorage(s3_filesystem(s3_options(self._properties, authority))), authority
        own = {k.partition(".")[2]: v for k, v in self._properties.items() if k.startswith(f"{scheme}.")}
        query = f"?{urlencode(own)}" if own else ""
        try:
            filesystem, root = fs.FileSystem.from_uri(f"{scheme}://{authority}/{query}")
        except (lib.ArrowInvalid, lib.ArrowNotImplementedError) as error:
            raise Invalid(f"{scheme}://{authority} cannot be opened: {error}") from error
        return ArrowStorage(filesystem), root.rstrip("/")


def s3_filesystem(options: S3Options) -> Any:
    """Time-outs for every request, and repetitions with back-off where the store asks for them (503 SlowDown)."""
    from pyarrow import fs

    given: dict[str, Any] = {
        "access_key": options.access_key_id or None,
        "secret_key": options.secret_access_key or None,
        "session_token": options.session_token or None,
        "region": options.region or None,
        "force_virtual_addressing": bool(options.endpoint) and not options.is_path_style,
        "connect_timeout": SECONDS_TO_CONNECT,
        "request_timeout": SECONDS_TO_ANSWER,
        "retry_strategy": fs.AwsStandardS3RetryStrategy(max_attempts=ATTEMPTS),
    }
    if options.endpoint:
        scheme, _, host = options.endpoint.rpartition("://")
        given |= {"endpoint_override": host.rstrip("/"), "scheme": scheme or "https"}
    return fs.S3FileSystem(**given)


def sign_of(modified: datetime, size: int) -> str:
    """The same from a listing and from a HEAD, which knows whole seconds only."""
    return f"{int(modified.timestamp())}:{size}"


def local_entry(entry: "os.DirEntry[str]", inside: str = "") -> Entry:
    found = entry.stat(follow_symlinks=False)
    modified = datetime.fromtimestamp(found.st_mtime, timezone.utc)
    return Entry(name=inside + entry.name, size=found.st_size, modified=modified)


def arrow_entry(info: Any, root: str = "") -> Entry:
    name = info.path[len(root) :].lstrip("/") if root else info.base_name
    return Entry(name=name, size=info.size or 0, modified=info.mtime.astimezone(timezone.utc))


def is_hidden(path: str) -> bool:
    return any(part.startswith(".") for part in path.split("/")[:-1])


def scan(folder: str) -> "list[os.DirEntry[str]]":
    try:
        with os.scandir(folder) as found:
            return list(found)
    except (FileNotFoundError, NotADirectoryError):
        return []


def newest_after(storage: Storage, path_of: Callable[[int], str], known: int) -> tuple[int, str] | None:
    """The newest version and its sign, where ``known`` was the newest; None: only a listing tells.

    Two requests if nothing was committed since, or one version. On S3 a HEAD costs a twelfth of a listing, and a
    listing of many versions takes several requests.
    """
    found = storage.sign(path_of(known + 1))
    if found == ABSENT:
        own = storage.sign(path_of(known))
        return None if own == ABSENT else (known, own)
    for version in range(known + 2, known + 2 + MOST_BY_NAME):
        following = storage.sign(path_of(version))
        if following == ABSENT:
            return version - 1, found
        found = following
    return None
