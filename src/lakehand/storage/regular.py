# SPDX-License-Identifier: Apache-2.0
"""Opening files on this machine: regular ones only. Pipes, devices and links are refused, and never waited for."""

import errno
import os
import stat

from lakehand.storage.bounds import TooLarge, refuse_giants

FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFLNK: "a link",
}


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
