"""Of several sweeps on one folder one has a trial, as long as it lives."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from ablations.leases import Leases

LONG = 60.0  # seconds until a test gives up; none should come near it
OWNER = """
import sys
from pathlib import Path
from ablations.leases import Leases

if sys.platform == "linux":
    Path("/proc/self/comm").write_text(") Z 1 (")  # a name must not be taken for a state
leases = Leases(Path(sys.argv[1]))
if sys.argv[2:]:
    print(leases.take(*sys.argv[2:]), flush=True)
else:
    lock = leases.locked()
    lock.__enter__()
    print(True, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Leases]]:
    """Owners whose hearts beat only when `refresh` is called."""
    made: list[Leases] = []

    def make(**options: Any) -> Leases:
        made.append(Leases(tmp_path / "leases", beat=LONG * 100, patience=60.0, **options))
        return made[-1]

    yield make
    for leases in made:
        leases.release_all()


@pytest.fixture
def owners() -> Iterator[list[subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []
    yield started
    for owner in started:
        owner.kill()
        owner.communicate()


def start_owner(
    owners: list[subprocess.Popen[str]], folder: Path, *names: str
) -> subprocess.Popen[str]:
    """Another process that has leased these, or has the lock if there are none."""
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(folder / "leases"), *names],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    owners.append(owner)
    assert owner.stdout
    assert owner.stdout.readline() == "True\n"
    return owner


def rewrite(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def age(path: Path, seconds: float) -> None:
    """Let the last heartbeat be so much earlier."""
    beat = path.stat().st_mtime - seconds
    os.utime(path, (beat, beat))


def names(folder: Path) -> set[str]:
    return {path.name for path in (folder / "leases").iterdir()} - {".lock"}


def holders(leases: Leases) -> dict[str, bool]:
    """Which leases are held, and whether by this owner."""
    return {lease.name: leases.owns(lease) for lease in leases.live()}


def test_what_one_has_another_does_not_get_until_it_is_released(
    make: Callable[..., Leases],
) -> None:
    one, other = make(), make()
    assert one.take("a")
    assert one.take("a")
    assert not other.take("a")
    assert other.take("b")
    one.release("a")
    assert other.take("a")
    assert holders(other) == {"a": True, "b": True}
    assert holders(one) == {"a": False, "b": False}


def test_several_are_leased_together_or_not_at_all_and_released_on_leaving(
    make: Callable[..., Leases], tmp_path: Path
) -> None:
    other = make()
    with make() as one:
        assert one.take("b")
        assert not other.take("a", "b", "c")
        assert names(tmp_path) == {"b"}
    assert names(tmp_path) == set()


def test_of_many_takers_at_once_one_wins(tmp_path: Path) -> None:
    """Fault 12."""
    takers = [Leases(tmp_path / "leases") for _ in range(8)]
    for round_ in range(20):
        barrier = threading.Barrier(len(takers))
        won: list[Leases] = []

        def take(leases: Leases, name: str, barrier: Any = barrier, won: Any = won) -> None:
            barrier.wait()
            if leases.take(name):
                won.append(leases)

        threads = [threading.Thread(target=take, args=(each, str(round_))) for each in takers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(won) == 1
    for leases in takers:
        leases.release_all()


def test_a_living_process_keeps_its_lease_and_a_killed_one_loses_it(
    owners: list[subprocess.Popen[str]], tmp_path: Path
) -> None:
    """Fault 13. A killed process that nobody has waited for is dead all the same."""
    owner = start_owner(owners, tmp_path, "a")
    leases = Leases(tmp_path / "leases")
    assert not leases.take("a")
    handle = psutil.Process(owner.pid)
    owner.kill()
    os.waitid(os.P_PID, owner.pid, os.WEXITED | os.WNOWAIT)  # dead, yet not waited for
    assert handle.status() == psutil.STATUS_ZOMBIE
    assert leases.take("a")
    leases.release_all()


def test_a_lease_whose_process_id_has_another_process_now_is_taken_over(
    make: Callable[..., Leases], tmp_path: Path
) -> None:
    """Fault 14."""
    one, other = make(), make()
    one.take("a")
    (lease,) = one.live()
    rewrite(tmp_path / "leases/a", started=lease.started - 1)
    assert other.live() == []
    assert other.take("a")


def test_an_owner_elsewhere_is_judged_by_its_heartbeat_and_one_from_the_future_is_no_sign_of_life(
    make: Callable[..., Leases], tmp_path: Path
) -> None:
    """A file server whose clock was set back would have it alive for ever."""
    one, other = make(), make()
    for sign in (1, -1):
        assert one.take("a")
        rewrite(tmp_path / "leases/a", machine="another", pid=1, started=0.0)
        age(tmp_path / "leases/a", sign * 50)
        assert not other.take("a")
        age(tmp_path / "leases/a", sign * 11)
        assert other.take("a")
        other.release("a")


def test_an_owner_that_lost_its_lease_neither_keeps_it_alive_nor_releases_it(
    make: Callable[..., Leases], tmp_path: Path
) -> None:
    """Fault 16."""
    one, other = make(), make()
    one.take("a")
    age(tmp_path / "leases/a", 61)
    assert other.take("a")
    age(tmp_path / "leases/a", 10)
    beat = (tmp_path / "leases/a").stat().st_mtime
    one.refresh()
    assert (tmp_path / "leases/a").stat().st_mtime == beat
    one.release("a")
    with one.locked():
        assert not one.retake("a")
    assert holders(other) == {"a": True}


def test_a_lost_lease_that_nobody_has_taken_is_held_again(
    make: Callable[..., Leases], tmp_path: Path
) -> None:
    one, other = make(), make()
    losses: list[Callable[[], object]] = [
        lambda: shutil.rmtree(tmp_path / "leases"),
        lambda: age(tmp_path / "leases/a", 61),
        lambda: rewrite(tmp_path / "leases/a", token="another", pid=2**22 + 1),
    ]
    one.take("a")
    for lose in losses:
        lose()
        with one.locked():
            assert one.retake("a")
        assert holders(one) == {"a": True}
        assert not other.take("a")
    one.release("a")
    assert names(tmp_path) == set()


def test_the_heart_beats_by_itself(tmp_path: Path) -> None:
    beaten = threading.Event()

    class Watched(Leases):
        def refresh(self) -> None:
            super().refresh()
            beaten.set()

    with Watched(tmp_path / "leases", beat=0.01) as leases:
        leases.take("a")
        os.utime(tmp_path / "leases/a", (0, 0))
        assert beaten.wait(LONG)
        beaten.clear()
        assert beaten.wait(LONG)
        assert (tmp_path / "leases/a").stat().st_mtime > 1_000_000


def test_a_torn_lease_is_nobodys(make: Callable[..., Leases], tmp_path: Path) -> None:
    leases, path = make(), tmp_path / "leases/a"
    leases.take("a")
    whole = json.loads(path.read_text())
    torn = ["", '{"name": "a"', "[]", "null", '{"name": "a"}', "\x80\xff", "{}" * 3, "[" * 100_000]
    torn += [json.dumps({**whole, field: None}) for field in ("pid", "started", "since")]
    for text in torn:
        path.write_bytes(text.encode("latin-1"))
        assert leases.live() == [], text
    assert make().take("a")


def test_leases_that_dead_owners_left_are_cleared_away(
    make: Callable[..., Leases], tmp_path: Path
) -> None:
    one = make()
    one.take("a", "b")
    rewrite(tmp_path / "leases/a", pid=2**22 + 1)
    with make():
        assert names(tmp_path) == {"b"}


def test_a_lock_dies_with_its_holder(owners: list[subprocess.Popen[str]], tmp_path: Path) -> None:
    """Fault 11."""
    owner = start_owner(owners, tmp_path)
    with open(tmp_path / "leases/.lock") as file, pytest.raises(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    owner.kill()
    with Leases(tmp_path / "leases") as leases:
        assert leases.take("a")


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_reaches_one_who_waits_for_the_lock(
    make: Callable[..., Leases], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: signal.raise_signal(signal.SIGINT))
    one, other = make(), make()
    with one.locked(), pytest.raises(KeyboardInterrupt):
        other.take("a")
    assert other.take("a")


def test_a_lock_that_is_waited_for_is_the_one_in_the_folder(
    make: Callable[..., Leases], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A deleted file can be locked, and keeps nobody out."""
    monkeypatch.setattr(time, "sleep", lambda _: shutil.rmtree(tmp_path / "leases"))
    with make().locked(), make().locked(), pytest.raises(TimeoutError):
        make(wait=0.0).take("a")


def test_a_file_system_without_locks_is_named_with_the_way_out(
    make: Callable[..., Leases], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    number = errno.ENOLCK

    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(OSError, match="--results") as caught, make():
        pass
    assert caught.value.errno == number
    assert caught.value.filename == str(tmp_path / "leases/.lock")
    assert os.strerror(number) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("used", [True, False])
def test_a_folder_that_can_only_be_read_can_be_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, used: bool
) -> None:
    opened, folder = os.open, tmp_path / "leases"

    def refuse(path: Any, flags: int, *rest: Any, **more: Any) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
        return opened(path, flags, *rest, **more)

    with Leases(folder) as owner:
        if used:
            owner.take("a")
        else:
            (folder / ".lock").unlink()
        with monkeypatch.context() as patch:
            patch.setattr(os, "open", refuse)
            with Leases(folder) as leases, leases.locked():
                assert len(leases.live()) == used
