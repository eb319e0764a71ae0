"""As much of Slurm as a launcher asks for, with processes of this machine and files of one folder.

As a program it is sbatch, squeue, scancel or scontrol, by its first word. As a module it is the
cluster, for tests that act as its keeper.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import subprocess
import sys
from pathlib import Path

COMMANDS = ("sbatch", "srun", "squeue", "scancel", "scontrol")
REFUSALS = "refusals"  # a file: what sbatch says the next time, instead of taking a job


class ToySlurm:
    """Jobs are numbered from 1; `N_I` is an element of an array."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def install(self) -> Path:
        """A folder with its commands, for the path."""
        commands = self.folder / "bin"
        commands.mkdir(parents=True)
        for name in COMMANDS:
            words = f"exec {sys.executable} -S {__file__} {name} {self.folder}"
            (commands / name).write_text(f'#!/bin/sh\n{words} "$@"\n')
            (commands / name).chmod(0o755)
        return commands

    def refuse(self, words: str) -> None:
        (self.folder / REFUSALS).write_text(words)

    def scripts(self) -> list[str]:
        """What was submitted, in its order."""
        return [path.read_text() for path in sorted(self.folder.glob("*.script"))]

    def submit(self, file: Path) -> int:
        number, text = len(self.scripts()) + 1, file.read_text()
        (self.folder / f"{number}.script").write_text(text)
        (self.folder / f"{number}.env").write_text(json.dumps(dict(os.environ)))
        array = re.search(r"--array=0-(\d+)", text)
        indices = [] if array is None else range(int(array[1]) + 1)
        for name in [f"{number}_{index}" for index in indices] or [str(number)]:
            (self.folder / f"{name}.state").write_text("PENDING")
        self.schedule()
        return number

    def schedule(self) -> None:
        """Start what waits in its array, as far as that may."""
        for script in self.folder.glob("*.script"):
            limit = re.search(r"--array=\S+%(\d+)", script.read_text())
            states = {
                name: s for name, s in self.states().items() if name.split("_")[0] == script.stem
            }
            room = int(limit[1]) if limit else 1
            room -= sum(state in ("RUNNING", "COMPLETING") for state in states.values())
            waiting = [name for name, state in states.items() if state == "PENDING"]
            for name in sorted(waiting, key=len)[: max(0, room)]:
                if not (self.folder / f"{name}.pid").exists():  # a restart is on its way
                    self.start(name)

    def start(self, name: str) -> None:
        number, _, index = name.partition("_")
        env = json.loads((self.folder / f"{number}.env").read_text()) | {"SLURM_JOB_ID": number}
        env |= {"SLURM_ARRAY_JOB_ID": number, "SLURM_ARRAY_TASK_ID": index} if index else {}
        with open(self.folder / f"{name}.log", "a") as log:
            script = ["bash", str(self.folder / f"{number}.script")]
            job = subprocess.Popen(script, env=env, stdout=log, stderr=log, start_new_session=True)
        (self.folder / f"{name}.pid").write_text(str(job.pid))
        (self.folder / f"{name}.state").write_text("RUNNING")

    def pid(self, name: str) -> int:
        """Of the batch shell, whose place the job has taken."""
        return int((self.folder / f"{name}.pid").read_text())

    def states(self) -> dict[str, str]:
        return {path.stem: self._state(path) for path in sorted(self.folder.glob("*.state"))}

    def _state(self, path: Path) -> str:
        told = path.read_text()
        if told == "PENDING":
            return told
        if _is_alive(self.pid(path.stem)):
            return "RUNNING" if told == "RUNNING" else "COMPLETING"
        return "COMPLETED" if told == "RUNNING" else told

    def tell(self, name: str, number: int) -> None:
        pid = self.pid(name)
        with contextlib.suppress(ProcessLookupError):
            if pid:
                os.kill(pid, number)

    def end(self, name: str, state: str | None) -> None:
        """Kill a job, and say from now on that it ended so; None: that nobody knows it."""
        path = self.folder / f"{name}.state"
        path.write_text(state or "")
        self.tell(name, signal.SIGKILL)
        if state is None:
            path.unlink()

    def await_end(self, name: str) -> None:
        with contextlib.suppress(ProcessLookupError):
            select.select([os.pidfd_open(self.pid(name))], [], [])

    def cancel(self, name: str) -> None:
        if not (self.folder / f"{name}.pid").exists():
            (self.folder / f"{name}.pid").write_text("0")  # it never ran
        (self.folder / f"{name}.state").write_text("CANCELLED")
        self.tell(name, signal.SIGTERM)

    def requeue(self, name: str) -> None:
        """Tell a job to stop, and start it again once it has."""
        (self.folder / f"{name}.state").write_text("PENDING")
        words = [sys.executable, "-S", __file__, "restart", str(self.folder), name]
        subprocess.Popen(words, start_new_session=True).returncode = 0  # nobody waits for it
        self.tell(name, signal.SIGTERM)

    def restart(self, name: str) -> None:
        self.await_end(name)
        self.start(name)


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] != b"Z"
    except OSError:
        return False


def main(command: str, folder: str, *words: str) -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # jobs inherit nothing of who submits them
    slurm = ToySlurm(Path(folder))
    refusal = slurm.folder / REFUSALS
    if command == "sbatch" and refusal.exists():
        told = refusal.read_text()
        refusal.unlink()
        sys.exit(told)
    if command == "sbatch":
        print(f"Submitted batch job {slurm.submit(Path(words[0]))}")
    elif command == "squeue":
        slurm.schedule()
        print("\n".join(f"{name}|{state}" for name, state in slurm.states().items()))
    elif command == "scancel":
        for name in [word for word in words if not word.startswith("-")]:
            slurm.cancel(name)
    elif command == "scontrol":
        slurm.requeue(words[1])
    elif command == "restart":
        slurm.restart(words[0])


if __name__ == "__main__":
    main(*sys.argv[1:])
