"""A Slurm of one node, with its daemons as processes of a test.

It needs root, and Debian's packages slurm-wlm and munge. Nothing of it is left behind, and it
shares neither port nor folder with a Slurm that is at work here.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

LONG = 60.0  # seconds until a daemon that does not come up counts as broken
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "scontrol")
CONF = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser=root
AuthInfo=socket={folder}/munge/socket
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
KillWait=30
SlurmdTimeout=300
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=2
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=low Nodes=ALL Default=YES PriorityTier=1
PartitionName=high Nodes=ALL PriorityTier=10 PreemptMode=OFF
"""


def why_not() -> str:
    """What stands in the way of a Slurm here; nothing if nothing does."""
    lacking = [name for name in PROGRAMS if shutil.which(name) is None]
    if sys.platform != "linux" or lacking:
        return f"{', '.join(lacking)} not found: apt-get install slurm-wlm munge"
    return "" if os.getuid() == 0 else "the daemons of Slurm are started by root alone"


class RealSlurm:
    """Its commands are asked with `conf` as their SLURM_CONF."""

    def __init__(self, cpus: int) -> None:
        self.cpus = cpus
        self.folder = Path(tempfile.mkdtemp(prefix="slurm-"))
        self.folder.chmod(0o755)  # munged is another user
        self.conf = self.folder / "slurm.conf"
        self._daemons: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if len(self._daemons) > 1:  # jobs would outlive slurmd
            with contextlib.suppress(subprocess.SubprocessError, TimeoutError):
                self.ask("scancel", "--me")
                self.wait_for(lambda: self.running() == 0, "no job runs any more")
        for daemon in reversed(self._daemons):
            daemon.send_signal(signal.SIGTERM)
            try:
                daemon.wait(LONG)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def ask(self, *words: str) -> str:
        done = subprocess.run(
            words, env=self.environment, capture_output=True, text=True, check=True, timeout=LONG
        )
        return done.stdout.strip()

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "SLURM_CONF": str(self.conf)}

    def requeue(self, number: str) -> None:
        """Take a running job's machine away, and give it back."""
        self.ask("scontrol", "requeue", number)
        self.hasten(number)

    def hasten(self, number: str) -> None:
        """Let a job that was queued again begin soon: after two seconds, not two minutes."""
        self.wait_for(lambda: self.state(number) == "PENDING", f"{number} is queued again")
        self.ask("scontrol", "update", f"JobId={number}", "StartTime=now+2")

    def running(self) -> int:
        """Jobs that run, or are not quite over."""
        words = ("--noheader", "--array", "--states=RUNNING,COMPLETING")
        return len(self.ask("squeue", *words).splitlines())

    def state(self, number: str) -> str:
        return self.ask("squeue", "--noheader", "--states=all", "--format=%T", f"--jobs={number}")

    def wait_for(self, holds: Callable[[], bool], what: str) -> None:
        until = time.monotonic() + LONG
        while not holds():
            if time.monotonic() > until:
                logs = [path.read_text()[-2000:] for path in self.folder.glob("slurm*.log")]
                raise TimeoutError(f"not within {LONG:g} s: {what}\n" + "\n".join(logs))
            time.sleep(0.05)

    def _start(self) -> None:
        self._start_munge()
        host = socket.gethostname().partition(".")[0]
        for name in ("state", "spool"):
            (self.folder / name).mkdir()
        facts = {"cpus": self.cpus, "ports": _free_ports(2)}
        self.conf.write_text(CONF.format(host=host, folder=self.folder, **facts))
        for name in ("slurmctld", "slurmd"):
            self._run([name, "-D"])
        self.wait_for(lambda: self._node() == "idle", "the node is there")

    def _start_munge(self) -> None:
        user, folder = pwd.getpwnam("munge"), self.folder / "munge"
        folder.mkdir()
        (folder / "key").write_bytes(secrets.token_bytes(128))
        (folder / "key").chmod(0o400)
        for path in (folder, folder / "key"):
            os.chown(path, user.pw_uid, user.pw_gid)
        names = ("socket", "key-file", "pid-file", "log-file", "seed-file")
        places = [f"--{name}={folder / name.partition('-')[0]}" for name in names]
        self._run(["munged", "--foreground", *places], user="munge")
        self.wait_for((folder / "socket").exists, "munged listens")

    def _run(self, words: list[str], user: str | None = None) -> None:
        self._daemons.append(
            subprocess.Popen(
                words,
                env=self.environment,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                user=user,
            )
        )

    def _node(self) -> str:
        """How the node is; nothing where the controller is not there yet."""
        try:
            return self.ask("sinfo", "--noheader", "--format=%T", "--partition=low")
        except subprocess.SubprocessError:
            return ""


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
