"""Of several runs on one folder one has a trial, as long as it lives."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from filelock import SoftFileLease

from ablations import leases as module
from ablations.leases import DURATION, Leases

OWNER = """
import sys
from pathlib import Path
from ablations.leases import Leases

if sys.platform == "linux":
    Path("/proc/self/comm").write_text(") Z 1 (")  # a name must not be taken for a state
leases = Leases(Path(sys.argv[1]))
print(leases.take(*sys.argv[2:]), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[[], Leases]]:
    made: list[Leases] = []

    def make() -> Leases:
        made.append(Leases(tmp_path / "leases"))
        return made[-1]

    yield make
    for leases in made:
        leases.release_all()


@pytest.fixture
def start_owner(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Another process that has leased these."""
    started: list[subprocess.Popen[str]] = []

    def start(*names: str) -> subprocess.Popen[str]:
        owner = subprocess.Popen(
            [sys.executable, "-c", OWNER, str(tmp_path / "leases"), *names],
            env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(owner)
        assert owner.stdout
        assert owner.stdout.readline() == "True\n"
        return owner

    yield start
    for owner in started:
        owner.kill()
        owner.communicate()


def age(path: Path, seconds: float) -> None:
    """Let the last heartbeat be so much earlier."""
    beat = path.stat().st_mtime - seconds
    os.utime(path, (beat, beat))


def rewrite(path: Path, **changes: str) -> None:
    """Lines of a lease that say something else."""
    lines = (line.partition("=") for line in path.read_text().splitlines())
    path.write_text("".join(f"{key}{at}{changes.get(key, was)}\n" for key, at, was in lines))


def names(folder: Path) -> set[str]:
    return {path.name for path in (folder / "leases").iterdir()}


def holders(leases: Leases) -> dict[str, bool]:
    """Which leases are held, and whether by this owner."""
    return {lease.name: lease.is_own for lease in leases.live()}


def test_what_one_has_another_does_not_get_until_it_is_released(
    make: Callable[[], Leases],
) -> None:
    one, other = make(), make()
    assert one.take("a")
    assert one.take("a")
    assert not other.take("a")
    assert other.take("b")
    assert [(one.holds(name), other.holds(name)) for name in "ab"] == [(True, False), (False, True)]
    one.release("a")
    assert other.take("a")
    assert holders(other) == {"a": True, "b": True}
    assert holders(one) == {"a": False, "b": False}


def test_several_are_leased_together_or_not_at_all_and_released_on_leaving(
    make: Callable[[], Leases], tmp_path: Path
) -> None:
    other = make()
    with make() as one:
        assert one.take("b")
        assert not other.take("c", "a", "b")
        assert names(tmp_path) == {"b"}
    assert names(tmp_path) == set()


@pytest.mark.parametrize("takes_over", [True, False], ids=["here", "as on NFS"])
def test_a_living_process_keeps_its_lease_and_a_killed_one_loses_it(
    start_owner: Callable[..., subprocess.Popen[str]],
    make: Callable[[], Leases],
    monkeypatch: pytest.MonkeyPatch,
    takes_over: bool,
) -> None:
    """Fault 13. The lock is a lease as well; filelock takes nothing over where two names cannot be
    exchanged."""
    if not takes_over:
        monkeypatch.setattr(SoftFileLease, "_take_over", lambda *_: None)
    owner, leases = start_owner("a", ".lock"), make()
    assert not leases.take("a")
    assert [(lease.name, lease.pid) for lease in leases.live()] == [("a", owner.pid)]
    owner.kill()
    owner.wait()
    assert leases.live() == []
    assert leases.take("a")
    with leases.locked():
        assert leases.holds(".lock")


def test_a_lease_whose_process_id_has_another_process_now_is_taken_over(
    make: Callable[[], Leases], tmp_path: Path
) -> None:
    """Fault 14."""
    one, other = make(), make()
    one.take("a")
    rewrite(tmp_path / "leases/a", start="1")
    assert other.live() == []
    assert other.take("a")


def test_an_owner_elsewhere_is_judged_by_its_heartbeat(
    make: Callable[[], Leases], tmp_path: Path
) -> None:
    """One from the future is no sign of life: a file server's clock may have been set back."""
    for name, sign in (("past", 1), ("future", -1)):
        one, other, path = make(), make(), tmp_path / "leases" / name
        assert one.take(name)
        rewrite(path, host="another", pid="1")
        age(path, sign * (DURATION - 10))
        assert [lease.host for lease in other.live() if lease.name == name] == ["another"]
        assert not other.take(name)
        age(path, sign * 11)
        assert other.take(name)


def test_an_owner_that_lost_its_lease_knows_and_neither_takes_nor_releases_it(
    make: Callable[[], Leases], tmp_path: Path
) -> None:
    """Fault 16."""
    one, other = make(), make()
    one.take("a")
    age(tmp_path / "leases/a", DURATION + 1)
    assert one.holds("a"), "nobody has used its silence"
    assert other.take("a")
    assert not one.holds("a")
    assert not one.take("a")
    one.release("a")
    assert holders(other) == {"a": True}
    shutil.rmtree(tmp_path / "leases")
    assert not other.holds("a")
    assert other.take("a")


def test_a_torn_lease_is_nobodys_but_may_be_on_its_way(
    make: Callable[[], Leases], tmp_path: Path
) -> None:
    path = tmp_path / "leases/a"
    with make() as leases:
        leases.take("a")
        whole = path.read_text()
    for text in ["", whole[:-2], "[]", "\x80\xff", whole.replace("pid=", "pid=x")]:
        path.write_bytes(text.encode("latin-1"))
        assert make().live() == [], text
        assert not make().take("a")
        age(path, DURATION + 1)
        with make() as leases:
            assert leases.take("a"), text


def test_the_lock_is_one_owners_and_ctrl_c_reaches_who_waits_for_it(
    make: Callable[[], Leases], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault 11."""
    one, other = make(), make()
    with one.locked():
        with monkeypatch.context() as patch:
            patch.setattr(time, "sleep", lambda _: signal.raise_signal(signal.SIGINT))
            with pytest.raises(KeyboardInterrupt), other.locked():
                pass
        monkeypatch.setattr(module, "_PATIENCE", 0.0)
        with pytest.raises(TimeoutError, match=r"keeps this locked.*leases/\.lock"), other.locked():
            pass
        assert one.live() == [], "the lock is no work"
    with other.locked():
        pass


def test_a_folder_that_can_only_be_read_can_be_looked_at(
    make: Callable[[], Leases], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = os.open

    def refuse(path: Any, flags: int, *rest: Any, **more: Any) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
        return opened(path, flags, *rest, **more)

    (tmp_path / "leases").mkdir()
    for used in (False, True):
        if used:
            make().take("a")
        with monkeypatch.context() as patch:
            patch.setattr(os, "open", refuse)
            leases = make()
            with leases.locked():
                assert len(leases.live()) == used
