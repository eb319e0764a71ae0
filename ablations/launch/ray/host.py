"""A Ray worker as a place for jobs: each in a process of its own, with the files that go with it.

The job's process can crash, run out of time or leave children behind, as on the driver's machine;
where the Ray worker itself is lost, that was no fault of the job's.
"""

from __future__ import annotations

import hashlib
import platform
import shutil
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from ablations.launch import Job, Outcome, Progress
from ablations.launch.local import LocalLauncher
from ablations.launch.ray.errand import own_folder
from ablations.store.files import write_atomic
from ablations.tasks.data.lines import brought_to


@cache
def host() -> Host:
    """The one of this process."""
    return Host()


class Host:
    """Runs one job after another, of one sweep at a time, and listens for those that shall stop."""

    def __init__(self) -> None:
        preload = ["torch", "ablations.preload"]
        self._launcher = LocalLauncher(1, preload)
        self._launcher.is_stopping = self._is_stopping
        self._sweep: str | None = None
        self._mailbox: Any = None
        self._attempt: str | None = None
        self._stops: list[str] = []

    def serve(self, sweep: str, mailbox: Any) -> None:
        """From now on, jobs are of this sweep."""
        if sweep != self._sweep:
            self._sweep, self._mailbox, self._stops = sweep, mailbox, []
            threading.Thread(target=self._listen, args=(sweep, mailbox), daemon=True).start()

    def run(self, errand: Mapping[str, Any]) -> dict[str, Any]:
        """Do a job; how it ended, how much mail it sent, and the files that it wrote."""
        import ray

        job, attempt = Job(**errand["job"]), errand["attempt"]
        for path, (digest, reference) in errand["reads"].items():
            place = brought_to(path)
            if place is not None and _digest(place) != digest:
                write_atomic(place, ray.get(reference))
        folder = Path(tempfile.mkdtemp(prefix="job-", dir=own_folder()))
        try:
            return self._run(Carried(folder, job, errand["files"]), attempt)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _run(self, carried: Carried, attempt: str) -> dict[str, Any]:
        sent = 0
        ended: Outcome | None = None
        self._launcher.submit(carried.job)
        self._attempt = attempt
        for event in self._launcher.events():
            if isinstance(event, Progress):
                mail = {"attempt": attempt, "number": sent, "files": carried.written()}
                mail |= {"fraction": event.fraction, "note": event.note}
                self._mailbox.put.remote(mail)
                sent += 1
            else:
                ended = event
        self._attempt = None
        assert ended is not None
        told = {"outcome": vars(ended), "sent": sent, "node": platform.node()}
        return told | {"files": carried.written()}

    def _is_stopping(self) -> bool:
        return self._attempt in self._stops

    def _listen(self, sweep: str, mailbox: Any) -> None:
        import ray

        stops: list[str] = []
        while True:
            try:
                stops = ray.get(mailbox.stops.remote(len(stops)))
            except ray.exceptions.RayError:  # the sweep has ended
                return
            if sweep != self._sweep:
                return
            self._stops = stops


class Carried:
    """A job whose files stand in a folder of its own, and what it has written there."""

    def __init__(self, folder: Path, job: Job, files: Mapping[str, bytes]) -> None:
        self._places = {name: folder / name for name in job.files}
        self._known: dict[str, tuple[int, int]] = {}
        for name, data in files.items():
            self._places[name].write_bytes(data)
            self._known[name] = _version(self._places[name])
        paths = {name: str(place) for name, place in self._places.items()}
        self.job = replace(job, payload={**job.payload, **paths})

    def written(self) -> dict[str, bytes]:
        """Files that are new, or others than they were the last time."""
        found = {}
        for name, place in self._places.items():
            try:
                version = _version(place)
                if version != self._known.get(name):
                    found[name], self._known[name] = place.read_bytes(), version
            except FileNotFoundError:
                continue
        return found


def _digest(path: Path) -> str | None:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else None


def _version(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_ino, found.st_mtime_ns
