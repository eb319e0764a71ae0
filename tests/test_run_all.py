"""run_all.sh, driven with pretend Pythons: no test here installs or trains anything."""

from __future__ import annotations

import contextlib
import os
import select
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
TOOLS = ["bash", "cat", "cksum", "cp", "dirname", "env", "flock", "getconf", "grep", "mkdir"]
TOOLS += ["mv", "rm", "sed", "tail"]
PATIENCE = 60  # seconds; only ever reached by a failing test

# Logs its words, then does what the environment says. `hold` tells the test that it is under way
# through one fifo, and waits for another.
PYTHON = """#!/usr/bin/env bash
printf '%s\\n' "$(printf '%q ' "${0##*/}" "$@")" >>"$CALLS"
hold() { exec 3>"$UNDER_WAY" && echo under way >&3 && read -r <"$GO_ON"; }
case "$1 $2 ${3-}" in
    "-c "*) echo "${VERSION:-3.11}" && [[ ! ${NO_VENV-} ]] ;;
    "-m venv "*)
        mkdir -p "$3/bin"
        [[ ! ${VENV_SAYS-} ]] || { echo "$VENV_SAYS" && exit 1; }
        cp "$0" "$3/bin/python"
        ;;
    "-m pip install")
        [[ ${HOLD-} != pip ]] || hold
        [[ ! ${PIP_SAYS-} ]] || { echo "$PIP_SAYS" && exit 1; }
        ;;
    "-m ablations run")
        [[ ${HOLD-} != run ]] || hold
        exit "${RUN_CODE:-0}"
        ;;
esac
"""
BROKEN_SHIM = "#!/usr/bin/env bash\necho 'shim: version not installed' >&2\nexit 127\n"


class Checkout:
    """A copy of the scripts in a folder of its own, with a PATH of chosen programs only."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "a folder with spaces"
        self.bin = folder / "bin"
        (self.root / ".ci").mkdir(parents=True)
        self.bin.mkdir()
        shutil.copy(REPOSITORY / "run_all.sh", self.root)
        shutil.copy(REPOSITORY / ".ci" / "run", self.root / ".ci")
        self.pins("torch==1")
        for tool in TOOLS:
            if found := shutil.which(tool):
                (self.bin / tool).symlink_to(found)
        self.program("python3", PYTHON)
        self.log = folder / "calls"
        self.env = {"PATH": str(self.bin), "CALLS": str(self.log)}
        fifos = {"UNDER_WAY": folder / "under-way", "GO_ON": folder / "go-on"}
        for name, fifo in fifos.items():
            os.mkfifo(fifo)
            self.env[name] = str(fifo)
        self.under_way = os.open(fifos["UNDER_WAY"], os.O_RDONLY | os.O_NONBLOCK)
        self.go_on = os.open(fifos["GO_ON"], os.O_RDWR)
        self.started: list[subprocess.Popen[str]] = []

    def program(self, name: str, text: str) -> None:
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def pins(self, text: str) -> None:
        (self.root / "pyproject.toml").write_text(text)

    def start(self, *words: str, **env: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [self.root / "run_all.sh", *words],
            cwd=self.bin,
            env=self.env | env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.started.append(process)
        return process

    def run(self, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
        process = self.start(*words, **env)
        out, err = process.communicate(timeout=PATIENCE)
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    def hear(self) -> bytes:
        """What the held program says; nothing once it has ended."""
        ready, _, _ = select.select([self.under_way], [], [], PATIENCE)
        assert ready, "the held program was never reached"
        return os.read(self.under_way, 100)

    def calls(self, *begin: str) -> list[list[str]]:
        """The words after `begin` of each call of a Python that began so."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        words = [shlex.split(line)[1:] for line in lines]
        return [call[len(begin) :] for call in words if call[: len(begin)] == list(begin)]

    def installed(self) -> list[str]:
        return [call[-1] for call in self.calls("-m", "pip", "install")]

    def close(self) -> None:
        for process in self.started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # also what outlived its leader
            process.communicate()
        os.close(self.under_way)
        os.close(self.go_on)


@pytest.fixture
def checkout(tmp_path: Path) -> Iterator[Checkout]:
    checkout = Checkout(tmp_path)
    yield checkout
    checkout.close()


def assert_one_clear_line(done: subprocess.CompletedProcess[str], *says: str) -> None:
    """It failed, and its last line is the only one that is not a step."""
    assert done.returncode == 1
    assert done.stdout == ""
    *steps, last = done.stderr.splitlines()
    assert all(step.startswith(("run_all.sh: making", "run_all.sh: installing")) for step in steps)
    for words in says:
        assert words in last


def test_a_python_that_runs_is_taken_and_the_user_may_name_one(checkout: Checkout) -> None:
    checkout.program("python3", BROKEN_SHIM)
    checkout.program("python3.14", BROKEN_SHIM)
    checkout.program("python3.12", PYTHON)
    done = checkout.run("setup")
    assert done.returncode == 0
    assert "making .venv with python3.12" in done.stderr
    shutil.rmtree(checkout.root / ".venv")
    checkout.program("mine", PYTHON)
    assert "making .venv with mine" in checkout.run("setup", PYTHON="mine").stderr


def test_what_is_missing_is_named_and_nothing_installed(checkout: Checkout) -> None:
    for env, says in [
        ({"VERSION": "3.9"}, ["python3 is Python 3.9", "too old", "install Python 3.11"]),
        ({"NO_VENV": "yes"}, ["no venv module", "apt install python3.11-venv"]),
    ]:
        assert_one_clear_line(checkout.run("smoke", **env), *says)
    (checkout.bin / "python3").unlink()
    assert_one_clear_line(checkout.run(), "no Python found", "install Python 3.11")
    assert not checkout.installed()
    assert not (checkout.root / ".venv").exists()


def test_a_venv_that_cannot_be_made_leaves_nothing_behind(checkout: Checkout) -> None:
    done = checkout.run("smoke", VENV_SAYS="ensurepip returned non-zero")
    assert_one_clear_line(done, "ensurepip returned non-zero")
    assert not (checkout.root / ".venv").exists()
    assert checkout.run("smoke").returncode == 0


def test_a_failing_pip_is_explained_in_one_line_and_its_log_kept(checkout: Checkout) -> None:
    log = checkout.root / ".venv" / "setup.log"
    for pip_says, we_say in [
        ("WARNING: Retrying after connection broken by 'NewConnectionError(...)'", "no network"),
        ("[Errno -3] Temporary failure in name resolution", "no network"),
        ("OSError: [Errno 28] No space left on device", "no space left"),
        ("ERROR: No matching distribution found for torch==1", "pip finds no torch==1"),
        ("ERROR: something never seen before", "something never seen before"),
    ]:
        assert_one_clear_line(checkout.run("smoke", PIP_SAYS=pip_says), we_say, str(log))
        assert pip_says in log.read_text()
    assert not checkout.calls("-m", "ablations")
    assert checkout.run("smoke").returncode == 0


def test_set_up_does_again_only_what_has_changed(checkout: Checkout) -> None:
    """Pins, what tests need besides, or a Python that no longer runs."""
    checkout.run("smoke")
    checkout.run("smoke")
    assert checkout.installed() == ["."]
    checkout.pins("torch==2")
    assert checkout.run("smoke", PIP_SAYS="NewConnectionError").returncode == 1
    checkout.run("smoke")
    checkout.run("setup")
    checkout.run("smoke")  # which the extra of tests serves too
    assert checkout.installed() == [".", ".", ".", ".[test]"]
    assert len(checkout.calls("-m", "venv")) == 1
    (checkout.root / ".venv" / "bin" / "python").write_text(BROKEN_SHIM)
    assert checkout.run("smoke").returncode == 0
    assert checkout.installed()[4:] == ["."]
    assert len(checkout.calls("-m", "venv")) == 2


@pytest.mark.parametrize(
    ("by", "made_before"), [(signal.SIGKILL, False), (signal.SIGKILL, True), (signal.SIGINT, False)]
)
def test_a_set_up_that_was_stopped_is_begun_again(
    checkout: Checkout, by: signal.Signals, made_before: bool
) -> None:
    if made_before:
        checkout.run("smoke")
        checkout.pins("torch==2")
    stopped = checkout.start("smoke", HOLD="pip")
    checkout.hear()
    os.killpg(stopped.pid, by)
    _, err = stopped.communicate(timeout=PATIENCE)
    assert stopped.returncode == (-by if by == signal.SIGKILL else 128 + by)
    assert by == signal.SIGKILL or "interrupted: run this again" in err.splitlines()[-1]
    assert checkout.run("smoke").returncode == 0
    assert len(checkout.calls("-m", "venv")) == 2
    assert len(checkout.calls("-m", "ablations", "run")) == 1 + made_before


@pytest.mark.skipif(shutil.which("flock") is None, reason="without flock nobody waits")
def test_of_two_at_the_same_time_one_sets_up_and_the_other_waits(checkout: Checkout) -> None:
    first = checkout.start("smoke", HOLD="pip")
    checkout.hear()
    second = checkout.start("smoke")
    assert second.stderr is not None
    assert "waiting" in second.stderr.readline()
    os.write(checkout.go_on, b"\n")
    first.communicate(timeout=PATIENCE)
    second.communicate(timeout=PATIENCE)
    assert (first.returncode, second.returncode) == (0, 0)
    assert checkout.installed() == ["."]


def test_results_overrides_and_the_exit_code_are_passed_on(checkout: Checkout) -> None:
    words = ["positions/g2p", "--results", "my results", "train.steps=5", "note=two words"]
    assert checkout.run("full", *words, RUN_CODE="3").returncode == 3
    assert checkout.calls("-m", "ablations") == [["run", "--profile", "full", *words]]
    for words, profile in ([], "quick"), (["smoke"], "smoke"), (["train.steps=5"], "quick"):
        checkout.run(*words)
        folder = str(checkout.root / "results" / profile)
        called = ["--profile", profile, "--results", folder]
        assert checkout.calls("-m", "ablations", "run")[-1][:4] == called


def test_sigterm_reaches_the_run(checkout: Checkout) -> None:
    process = checkout.start("smoke", HOLD="run")
    assert checkout.hear()
    process.terminate()
    process.communicate(timeout=PATIENCE)
    assert process.returncode == -signal.SIGTERM


def test_a_mistake_or_a_call_for_help_is_answered_before_any_set_up(checkout: Checkout) -> None:
    for words, says in [
        (["smok"], "smoke"),
        (["--profile", "full"], "first word"),
        (["setup", "now"], "no further words"),
    ]:
        done = checkout.run(*words)
        assert done.returncode == 2
        assert len(done.stderr.splitlines()) == 1
        assert says in done.stderr
    for words in (["help"], ["-h"], ["--help"], ["smoke", "--help"]):
        done = checkout.run(*words)
        assert done.returncode == 0
        assert "./run_all.sh bench" in done.stdout
    assert not checkout.calls()


def test_ci_runs_lint_types_and_every_test_but_the_long_ones(checkout: Checkout) -> None:
    script = checkout.root / ".ci" / "run"
    subprocess.run(
        ["bash", script],
        env=checkout.env,
        stdin=subprocess.DEVNULL,
        check=True,
        capture_output=True,
    )
    assert checkout.calls("-m", "ruff") == [["check", "."], ["format", "--check", "."]]
    assert checkout.calls("-m", "mypy") == [[]]
    (pytest_words,) = checkout.calls("-m", "pytest")
    assert pytest_words[0] == "-n"
    assert {"not soak", "--ignore=tests/benchmarks"} <= set(pytest_words[2:])


def test_soak_and_bench_hand_their_words_to_pytest(checkout: Checkout) -> None:
    checkout.run("soak", "-x")
    checkout.run("bench", "-k", "attention")
    assert checkout.calls("-m", "pytest") == [
        ["-m", "soak", "--ignore=tests/benchmarks", "-x"],
        ["tests/benchmarks", "--benchmark-enable", "-k", "attention"],
    ]
