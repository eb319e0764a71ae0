"""Of several sweeps on one folder one has a trial, as long as it lives."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from ablations.claim import HOST, Claims

LONG = 30.0  # seconds until a test gives up; none should come near it
OWNER = """
import sys
from pathlib import Path
from ablations.claim import Claims

claims = Claims(Path(sys.argv[1]))
if sys.argv[2:]:
    print(claims.take(*sys.argv[2:]), flush=True)
else:
    lock = claims.locked()
    lock.__enter__()
    print(True, flush=True)
sys.stdin.read()
"""


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def make(tmp_path: Path, clock: Clock) -> Iterator[Callable[[], Claims]]:
    """Owners whose hearts beat only when `refresh` is called."""
    made: list[Claims] = []

    def make() -> Claims:
        made.append(Claims(tmp_path / "claims", beat=LONG * 100, patience=60.0, clock=clock))
        return made[-1]

    yield make
    for claims in made:
        claims.release_all()


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
    """Another process that has claimed these, or has the lock if there are none."""
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(folder / "claims"), *names],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    owners.append(owner)
    assert owner.stdout
    assert owner.stdout.readline() == "True\n"
    return owner


def rewrite(path: Path, clock: Clock, **changes: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    os.utime(path, (clock.now, clock.now))


def names(folder: Path) -> set[str]:
    return {path.name for path in (folder / "claims").iterdir()} - {".lock"}


def test_what_one_has_another_does_not_get_until_it_is_released(
    make: Callable[[], Claims],
) -> None:
    one, other = make(), make()
    assert one.take("a")
    assert not other.take("a")
    assert other.take("b")
    one.release("a")
    assert other.take("a")
    assert other.holds("a")
    assert not one.holds("a")


def test_an_owner_may_take_again_what_it_has(make: Callable[[], Claims]) -> None:
    one = make()
    assert one.take("a")
    assert one.take("a", "b")


def test_several_are_claimed_together_or_not_at_all(
    make: Callable[[], Claims], tmp_path: Path
) -> None:
    one, other = make(), make()
    assert one.take("b")
    assert not other.take("a", "b", "c")
    assert names(tmp_path) == {"b"}


def test_leaving_releases_everything(make: Callable[[], Claims], tmp_path: Path) -> None:
    with make() as one:
        assert one.take("a", "b")
        assert names(tmp_path) == {"a", "b"}
    assert names(tmp_path) == set()


def test_a_claim_tells_who_has_it_and_since_when(
    make: Callable[[], Claims], clock: Clock, tmp_path: Path
) -> None:
    one = make()
    clock.now += 5
    one.take("a")
    (claim,) = make().live()
    assert (claim.name, claim.host, claim.pid) == ("a", HOST, os.getpid())
    assert claim.started == psutil.Process().create_time()
    assert claim.since == clock.now
    assert Claims(tmp_path / "absent").live() == []


def test_of_many_takers_at_once_one_wins(tmp_path: Path) -> None:
    """Fault 12."""
    takers = [Claims(tmp_path / "claims") for _ in range(8)]
    for round_ in range(20):
        barrier, won = threading.Barrier(len(takers)), []

        def take(claims: Claims, name: str, barrier: Any = barrier, won: Any = won) -> None:
            barrier.wait()
            if claims.take(name):
                won.append(claims)

        threads = [threading.Thread(target=take, args=(each, str(round_))) for each in takers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(won) == 1
    for claims in takers:
        claims.release_all()


def test_a_living_process_keeps_its_claim_and_a_killed_one_loses_it(
    owners: list[subprocess.Popen[str]], tmp_path: Path
) -> None:
    """Fault 13. A killed process that nobody has waited for is dead all the same."""
    owner = start_owner(owners, tmp_path, "a")
    claims = Claims(tmp_path / "claims")
    assert not claims.take("a")
    handle = psutil.Process(owner.pid)
    owner.kill()
    os.waitid(os.P_PID, owner.pid, os.WEXITED | os.WNOWAIT)  # dead, yet not waited for
    assert handle.status() == psutil.STATUS_ZOMBIE
    assert claims.take("a")
    claims.release_all()


def test_a_claim_whose_process_id_has_another_process_now_is_taken_over(
    make: Callable[[], Claims], clock: Clock, tmp_path: Path
) -> None:
    """Fault 14."""
    one, other = make(), make()
    one.take("a")
    rewrite(tmp_path / "claims/a", clock, started=psutil.Process().create_time() - 100)
    assert other.live() == []
    assert other.take("a")


def test_an_owner_elsewhere_is_judged_by_its_heartbeat(
    make: Callable[[], Claims], clock: Clock, tmp_path: Path
) -> None:
    one, other = make(), make()
    one.take("a")
    rewrite(tmp_path / "claims/a", clock, host="another machine", pid=1, started=0.0)
    clock.now += 59
    assert not other.take("a")
    clock.now += 2
    assert other.take("a")


def test_a_heartbeat_keeps_a_claim_and_silence_loses_it(
    make: Callable[[], Claims], clock: Clock
) -> None:
    one, other = make(), make()
    one.take("a")
    for _ in range(5):
        clock.now += 50
        one.refresh()
        assert not other.take("a")
    clock.now += 61
    assert other.take("a")


def test_an_owner_that_lost_its_claim_neither_keeps_it_alive_nor_releases_it(
    make: Callable[[], Claims], clock: Clock, tmp_path: Path
) -> None:
    """Fault 16."""
    one, other = make(), make()
    one.take("a")
    clock.now += 61
    assert other.take("a")
    beat = (tmp_path / "claims/a").stat().st_mtime
    clock.now += 10
    one.refresh()
    assert (tmp_path / "claims/a").stat().st_mtime == beat
    one.release("a")
    assert other.holds("a")


def test_the_heart_beats_by_itself(tmp_path: Path) -> None:
    beaten = threading.Event()

    class Watched(Claims):
        def refresh(self) -> None:
            super().refresh()
            beaten.set()

    with Watched(tmp_path / "claims", beat=0.01) as claims:
        claims.take("a")
        os.utime(tmp_path / "claims/a", (0, 0))
        assert beaten.wait(LONG)
        beaten.clear()
        assert beaten.wait(LONG)
        assert (tmp_path / "claims/a").stat().st_mtime > 1_000_000


@pytest.mark.parametrize(
    "text", ["", '{"name": "a"', "[]", "null", '{"name": "a"}', "\x80\xff", "{}" * 3]
)
def test_a_torn_claim_is_nobodys(make: Callable[[], Claims], tmp_path: Path, text: str) -> None:
    (tmp_path / "claims").mkdir()
    (tmp_path / "claims/a").write_bytes(text.encode("latin-1"))
    claims = make()
    assert claims.live() == []
    assert claims.take("a")


def test_claims_that_dead_owners_left_are_cleared_away(
    make: Callable[[], Claims], clock: Clock, tmp_path: Path
) -> None:
    one = make()
    one.take("a", "b")
    rewrite(tmp_path / "claims/a", clock, pid=2**22 + 1)
    with make():
        assert names(tmp_path) == {"b"}


def test_a_lock_dies_with_its_holder(owners: list[subprocess.Popen[str]], tmp_path: Path) -> None:
    """Fault 11."""
    owner = start_owner(owners, tmp_path)
    with open(tmp_path / "claims/.lock") as file, pytest.raises(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    owner.kill()
    with Claims(tmp_path / "claims") as claims:
        assert claims.take("a")


@pytest.mark.parametrize("used", [True, False])
def test_a_folder_that_can_only_be_read_can_be_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, used: bool
) -> None:
    opened, folder = os.open, tmp_path / "claims"

    def refuse(path: Any, flags: int, *rest: Any, **more: Any) -> int:
        if flags & os.O_CREAT:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
        return opened(path, flags, *rest, **more)

    with Claims(folder) as owner:
        if used:
            owner.take("a")
        else:
            (folder / ".lock").unlink()
        with monkeypatch.context() as patch:
            patch.setattr(os, "open", refuse)
            with Claims(folder) as claims, claims.locked():
                assert len(claims.live()) == used
