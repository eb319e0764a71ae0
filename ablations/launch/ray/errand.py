"""What a Ray worker runs first: it has none of our code yet, and unpacks it.

Ray carries these functions as they are, so they use the standard library and Ray alone.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import os
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any


def errand_for(sweep: str, digest: str, mailbox: Any) -> Any:
    """What a worker does for this sweep: Ray brings it to each once, and not with every job."""

    def run_errand(errand: dict[str, Any]) -> dict[str, Any]:
        """Do one job here; how it ended, how much mail it sent, and the files that it wrote."""
        if "ablations" not in sys.modules:
            import ray

            folder = own_folder()
            code = unpacked(folder, digest, lambda: ray.get(mailbox.code.remote()))
            # Where Ray was started there may be another `ablations`, which must not hide this one.
            os.environ["PYTHONSAFEPATH"] = "1"
            os.environ["PYTHONPATH"] = os.pathsep.join([str(code), *sys.path])
            os.environ["ABLATIONS_FILES"] = str(folder / "files")
            os.environ["ABLATIONS_TASKS"] = str(code / "tasks.json")
            sys.path.insert(0, str(code))
        from ablations.launch.ray.host import host

        host().serve(sweep, mailbox)
        return host().run(errand)

    return run_errand


def own_folder() -> Path:
    """A folder of this user's on this machine; another's is never used."""
    folder = Path(tempfile.gettempdir(), f"ablations-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if found.st_uid != os.getuid() or found.st_mode & 0o077 or not folder.is_dir():
        raise PermissionError(f"{folder} is not this user's alone: remove it")
    return folder


def unpacked(folder: Path, digest: str, fetch: Any) -> Path:
    """The code, unpacked once on this machine: whole or not at all, whoever is first."""
    place = folder / digest
    if place.is_dir():
        return place
    data = fetch()
    if hashlib.sha256(data).hexdigest() != digest:
        raise ValueError("the code that came with this job is damaged")
    beside = tempfile.mkdtemp(dir=folder)
    with zipfile.ZipFile(io.BytesIO(data)) as packed:
        packed.extractall(beside)
    try:
        os.rename(beside, place)
    except OSError:  # another worker was quicker
        shutil.rmtree(beside, ignore_errors=True)
    return place


class Mailbox:
    """Where workers leave mail for the driver, and the driver says which attempts shall stop; the
    code that they need lies there, too."""

    def __init__(self, code: bytes) -> None:
        self._code = code
        self._mail: list[Any] = []
        self._stops: list[str] = []
        self._came, self._stopping = asyncio.Event(), asyncio.Event()

    async def code(self) -> bytes:
        return self._code

    async def put(self, *mail: Any) -> None:
        self._mail += mail
        self._came.set()

    async def take(self) -> list[Any]:
        """All mail, as soon as there is some."""
        await self._came.wait()
        self._came.clear()
        mail, self._mail = self._mail, []
        return mail

    async def stop(self, *attempts: str) -> None:
        self._stops += attempts
        self._stopping.set()
        self._stopping = asyncio.Event()

    async def stops(self, known: int) -> list[str]:
        """Every attempt that shall stop, as soon as there are more than are known."""
        while len(self._stops) <= known:
            await self._stopping.wait()
        return list(self._stops)
