"""Every launcher keeps every contract, and each contract is broken by one made to break it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from launcher_breakers import BROKEN
from launcher_checks import OF_ALL, OF_PROCESSES, Check, checks
from launcher_subjects import LAUNCHERS, LauncherSubject, local
from launching import job

CASES = [
    pytest.param(subject, check, id=f"{subject}-{check.__name__}")
    for subject in LAUNCHERS
    for check in checks(subject)
]


@pytest.fixture(scope="module", autouse=True)
def server() -> Iterator[None]:
    """One launcher stays open, so that the server its workers come from is started once."""
    with local() as launcher:
        launcher.submit(job("first", "echo"))
        yield


@pytest.mark.parametrize(("subject", "check"), CASES)
def test_every_launcher_keeps_every_contract(subject: LauncherSubject, check: Check) -> None:
    check(subject)


@pytest.mark.parametrize(
    ("check", "launcher", "sentence"),
    [pytest.param(*case, id=f"{case[1].__name__}-fails-{case[0].__name__}") for case in BROKEN],
)
def test_a_broken_launcher_fails_its_contract(check: Check, launcher: Any, sentence: str) -> None:
    subject = LauncherSubject(launcher.__name__, "elsewhere.py", launcher, patience=0.05)
    if check not in checks(subject):
        pytest.skip("waits for processes of others through Linux pidfds")
    with pytest.raises(AssertionError, match=sentence) as failure:
        check(subject)
    assert "ablations/sweep/launch/__init__.py" in str(failure.value)  # where it is owed


def test_every_contract_has_a_broken_launcher() -> None:
    assert {case[0] for case in BROKEN} == {*OF_ALL, *OF_PROCESSES}
