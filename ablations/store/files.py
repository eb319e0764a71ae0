"""Files that are there whole or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import socket
from collections.abc import Iterator
from pathlib import Path

from ablations.store.schema import SCHEMA as SCHEMA
from ablations.store.schema import STATUSES as STATUSES
from ablations.store.schema import NewerRecordError as NewerRecordError
from ablations.store.schema import RecordError as RecordError

_HOST = hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]


def writer_of(temporary: str) -> int | None:
    """The process of this machine that wrote, or writes, a temporary file; None: who knows."""
    match = re.fullmatch(rf"\..+\.{_HOST}-(\d{{1,9}})-[0-9a-f]{{8}}\.tmp", temporary)
    return int(match[1]) if match else None


def _beside(path: Path) -> Path:
    return path.parent / f".{path.name}.{_HOST}-{os.getpid()}-{secrets.token_hex(4)}.tmp"


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
