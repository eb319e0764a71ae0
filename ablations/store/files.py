"""Files that are there whole or not at all, and that are files."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from ablations.store.machine import is_running, machine, started

_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFDIR: "a folder",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class NotAFileError(OSError):
    """Something else stands where a file is read: a FIFO would be waited for, a device has no end.

    Its `strerror` names what it is.
    """


def open_file(path: str | Path) -> BinaryIO:
    """A regular file to be read, or what a link leads to if that is one; nothing is waited for."""
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        if error.errno != errno.ENXIO:  # which a socket answers
            raise
        kind = os.stat(path).st_mode
    else:
        kind = os.fstat(opened).st_mode
        if stat.S_ISREG(kind):
            return os.fdopen(opened, "rb")
        os.close(opened)
    what = f"{_KINDS.get(stat.S_IFMT(kind), 'something else')}, not a file"
    raise NotAFileError(errno.EINVAL, what, str(path))


def read_file(path: str | Path) -> bytes:
    with open_file(path) as file:
        return file.read()


def is_left(temporary: str) -> bool | None:
    """Whether the writer of a temporary file is gone; None: it is elsewhere, so who knows.

    Elsewhere is another machine, or another pid namespace of this one.
    """
    match = re.fullmatch(rf"\..+\.{_here()}-(\d{{1,9}})-([0-9a-f]+)-[0-9a-f]{{8}}\.tmp", temporary)
    return None if match is None else not is_running(int(match[1]), int(match[2], 16) / 100)


def _here() -> str:
    return hashlib.sha256(machine().encode()).hexdigest()[:8]


def _beside(path: Path) -> Path:
    me = os.getpid()
    writer = f"{_here()}-{me}-{round(100 * started(me)):x}"
    return path.parent / f".{path.name}.{writer}-{secrets.token_hex(4)}.tmp"


@contextlib.contextmanager
def _cleared(temporary: Path, path: Path) -> Iterator[None]:
    """Leave no half of a file behind, and say where it was that the disk was full."""
    try:
        yield
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError) and error.filename is None:
            error.filename = str(path)
        raise


def write_atomic(path: Path, content: str | bytes) -> None:
    """The old or the new, never a mix: write beside, sync, rename over, sync the folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _beside(path)
    with _cleared(temporary, path), open(temporary, "xb") as file:
        file.write(content.encode() if isinstance(content, str) else content)
        file.flush()
        os.fsync(file.fileno())
        os.replace(temporary, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
