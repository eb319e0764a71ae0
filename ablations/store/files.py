"""Atomic writes, and reads of regular files only."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

HOUR = 3600.0
_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFDIR: "a folder",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class NotAFileError(OSError):
    """The path is no regular file; `strerror` names what it is."""


def open_file(path: str | Path) -> BinaryIO:
    """Open a regular file to read. A FIFO would wait for a writer, and a device has no end."""
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        if error.errno != errno.ENXIO:  # a socket answers that
            raise
        mode = os.stat(path).st_mode
    else:
        mode = os.fstat(opened).st_mode
        if stat.S_ISREG(mode):
            return os.fdopen(opened, "rb")
        os.close(opened)
    what = _KINDS.get(stat.S_IFMT(mode), "something else")
    raise NotAFileError(errno.EINVAL, f"{what}, not a file", str(path))


def read_file(path: str | Path) -> bytes:
    with open_file(path) as file:
        return file.read()


def is_left(temporary: Path) -> bool:
    """Whether a temporary file is an hour older than one that its folder is given now.

    Only the clock of the folder's own machine counts; a write takes seconds.
    """
    try:
        with tempfile.TemporaryFile(dir=temporary.parent) as new:
            return os.fstat(new.fileno()).st_mtime - temporary.stat().st_mtime > HOUR
    except OSError:  # gone, or in a folder that nothing can be deleted from
        return False


def beside(path: Path) -> Path:
    """A new temporary name in the folder of a file."""
    return path.parent / f".{path.name}.{secrets.token_hex(4)}.tmp"


@contextlib.contextmanager
def cleared(temporary: Path, path: Path) -> Iterator[None]:
    """Remove a temporary file whose write failed; name the file in the error."""
    try:
        yield
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError) and error.filename is None:
            error.filename = str(path)
        raise


def write_atomic(path: Path, content: str | bytes) -> None:
    """Leave the old file or the new one: write beside it, sync, rename, sync the folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = beside(path)
    with cleared(temporary, path), open(temporary, "xb") as file:
        file.write(content.encode() if isinstance(content, str) else content)
        file.flush()
        os.fsync(file.fileno())
        os.replace(temporary, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
