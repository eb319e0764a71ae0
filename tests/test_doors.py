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
TOOLS = ["awk", "bash", "cat", "cksum", "cp", "dirname", "env", "flock", "getconf", "grep", "mkdir"]
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
    "-m ablations report") echo "$5/report/index.html" && exit "${REPORT_CODE:-0}" ;;
esac
"""
BROKEN_SHIM = "#!/usr/bin/env bash\necho 'shim: version not installed' >&2\nexit 127\n"
DF = """#!/usr/bin/env bash
echo Filesystem 1024-blocks Used Available Capacity Mounted
echo /dev/disk 1 1 "$((${FREE_GB:-50} * 1024 * 1024))" 1% /
"""


class House:
    """A copy of the doors in a folder of its own, with a path that holds only what we put there."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "a house with spaces"
        self.bin = folder / "bin"
        (self.root / ".ci").mkdir(parents=True)
        self.bin.mkdir()
        shutil.copy(REPOSITORY / "run_all.sh", self.root)
        shutil.copy(REPOSITORY / ".ci" / "run", self.root / ".ci")
        self.pins("torch==1")
        for tool in TOOLS:
            if found := shutil.which(tool):
                (self.bin / tool).symlink_to(found)
        self.program("df", DF)
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
def house(tmp_path: Path) -> Iterator[House]:
    house = House(tmp_path)
    yield house
    house.close()


def assert_one_clear_line(done: subprocess.CompletedProcess[str], *says: str) -> None:
    """It failed, and its last line is the only one that is not a step."""
    assert done.returncode == 1
    assert done.stdout == ""
    *steps, last = done.stderr.splitlines()
    assert all(step.startswith(("run_all.sh: making", "run_all.sh: installing")) for step in steps)
    for words in says:
        assert words in last


def test_a_python_that_runs_is_taken_and_the_user_may_name_one(house: House) -> None:
    house.program("python3", BROKEN_SHIM)
    house.program("python3.14", BROKEN_SHIM)
    house.program("python3.12", PYTHON)
    done = house.run("setup")
    assert done.returncode == 0
    assert "making .venv with python3.12" in done.stderr
    shutil.rmtree(house.root / ".venv")
    house.program("mine", PYTHON)
    assert "making .venv with mine" in house.run("setup", PYTHON="mine").stderr


def test_what_is_lacking_is_named_and_nothing_installed_and_a_tight_disk_used(house: House) -> None:
    for env, says in [
        ({"VERSION": "3.9"}, ["python3 is Python 3.9", "too old", "install Python 3.11"]),
        ({"NO_VENV": "yes"}, ["no venv module", "apt install python3.11-venv"]),
        ({"FREE_GB": "2"}, ["only 2 GB free"]),
    ]:
        assert_one_clear_line(house.run("smoke", **env), *says)
        assert not house.installed()
    done = house.run("smoke", FREE_GB="4")
    assert (done.returncode, "only 4 GB free" in done.stderr) == (0, True)
    shutil.rmtree(house.root / ".venv")
    (house.bin / "python3").unlink()
    assert_one_clear_line(house.run(), "no Python found", "install Python 3.11")
    assert not (house.root / ".venv" / "bin").exists()


def test_a_venv_that_cannot_be_made_leaves_nothing_behind(house: House) -> None:
    done = house.run("smoke", VENV_SAYS="ensurepip returned non-zero")
    assert_one_clear_line(done, "ensurepip returned non-zero")
    assert not (house.root / ".venv").exists()
    assert house.run("smoke").returncode == 0


def test_a_failing_pip_is_explained_in_one_line_and_its_log_kept(house: House) -> None:
    log = house.root / ".venv" / "setup.log"
    for pip_says, we_say in [
        ("WARNING: Retrying after connection broken by 'NewConnectionError(...)'", "no network"),
        ("[Errno -3] Temporary failure in name resolution", "no network"),
        ("OSError: [Errno 28] No space left on device", "no space left"),
        ("ERROR: No matching distribution found for torch==1", "pip finds no torch==1"),
        ("ERROR: something never seen before", "something never seen before"),
    ]:
        assert_one_clear_line(house.run("smoke", PIP_SAYS=pip_says), we_say, str(log))
        assert pip_says in log.read_text()
    assert not house.calls("-m", "ablations")
    assert house.run("smoke").returncode == 0


def test_only_changed_pins_are_installed_into_the_same_venv(house: House) -> None:
    house.run("smoke")
    house.run("smoke")
    assert house.installed() == ["."]
    house.pins("torch==2")
    assert house.run("smoke", PIP_SAYS="NewConnectionError").returncode == 1
    assert house.run("smoke").returncode == 0
    assert house.installed() == [".", ".", "."]
    assert len(house.calls("-m", "venv")) == 1


def test_a_venv_with_the_test_extra_serves_the_profiles_but_not_the_reverse(house: House) -> None:
    house.run("smoke")
    house.run("setup")
    house.run("smoke")
    assert house.installed() == [".", ".[test]"]


def test_a_venv_whose_python_no_longer_runs_is_made_again(house: House) -> None:
    house.run("smoke")
    (house.root / ".venv" / "bin" / "python").write_text(BROKEN_SHIM)
    assert house.run("smoke").returncode == 0
    assert house.installed() == [".", "."]
    assert len(house.calls("-m", "venv")) == 2


@pytest.mark.parametrize("made_before", [False, True])
def test_a_set_up_that_was_killed_is_begun_again(house: House, made_before: bool) -> None:
    if made_before:
        house.run("smoke")
        house.pins("torch==2")
    killed = house.start("smoke", HOLD="pip")
    house.hear()
    os.killpg(killed.pid, signal.SIGKILL)
    assert killed.wait(PATIENCE) == -signal.SIGKILL
    assert house.run("smoke").returncode == 0
    assert len(house.calls("-m", "venv")) == 2
    assert len(house.calls("-m", "ablations", "run")) == 1 + made_before


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_stops_the_set_up_and_the_next_call_completes_it(house: House) -> None:
    stopped = house.start("smoke", HOLD="pip")
    house.hear()
    os.killpg(stopped.pid, signal.SIGINT)
    _, err = stopped.communicate(timeout=PATIENCE)
    assert stopped.returncode == 128 + signal.SIGINT
    assert "interrupted: run this again" in err.splitlines()[-1]
    assert house.run("smoke").returncode == 0


@pytest.mark.skipif(shutil.which("flock") is None, reason="without flock nobody waits")
def test_of_two_at_the_same_time_one_sets_up_and_the_other_waits(house: House) -> None:
    first = house.start("smoke", HOLD="pip")
    house.hear()
    second = house.start("smoke")
    assert second.stderr is not None
    assert "waiting" in second.stderr.readline()
    os.write(house.go_on, b"\n")
    first.communicate(timeout=PATIENCE)
    second.communicate(timeout=PATIENCE)
    assert (first.returncode, second.returncode) == (0, 0)
    assert house.installed() == ["."]


def test_results_and_overrides_are_passed_on(house: House) -> None:
    words = ["positions/g2p", "train.steps=5", "note=two words", "--seeds", "0,1"]
    done = house.run("full", words[0], "--results", "my results", *words[1:])
    assert done.returncode == 0
    assert house.calls("-m", "ablations") == [
        ["run", "--profile", "full", "--results", "my results", *words],
        ["report", "--results", "my results"],
    ]


def test_results_go_to_a_folder_named_after_the_profile(house: House) -> None:
    for words, profile in ([], "quick"), (["smoke"], "smoke"), (["train.steps=5"], "quick"):
        done = house.run(*words)
        folder = str(house.root / "results" / profile)
        called = ["--profile", profile, "--results", folder]
        assert house.calls("-m", "ablations", "run")[-1][:4] == called
        assert done.stdout.splitlines()[-1] == f"{folder}/report/index.html"


def test_failed_trials_are_reported_and_anything_worse_stops(house: House) -> None:
    for code, reports in ((0, 1), (1, 2), (2, 2), (3, 2), (137, 2)):
        assert house.run("smoke", RUN_CODE=str(code)).returncode == code
        assert len(house.calls("-m", "ablations", "report")) == reports
    assert house.run("smoke", REPORT_CODE="4").returncode == 4


def test_sigterm_reaches_the_run_and_no_report_follows(house: House) -> None:
    process = house.start("smoke", HOLD="run")
    assert house.hear()
    process.terminate()
    assert house.hear() == b""
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 128 + signal.SIGTERM
    assert not house.calls("-m", "ablations", "report")


def test_a_mistake_or_a_call_for_help_is_answered_before_any_set_up(house: House) -> None:
    for words, says in [
        (["smok"], "smoke"),
        (["quick", "--results"], "--results DIR"),
        (["quick", "--results="], "--results DIR"),
        (["--profile", "full"], "first word"),
        (["setup", "now"], "no further words"),
    ]:
        done = house.run(*words)
        assert done.returncode == 2
        assert len(done.stderr.splitlines()) == 1
        assert says in done.stderr
    for words in (["help"], ["-h"], ["--help"], ["smoke", "--help"]):
        done = house.run(*words)
        assert done.returncode == 0
        assert "./run_all.sh bench" in done.stdout
    assert not house.calls()


def test_ci_runs_lint_types_and_every_test_but_the_long_ones(house: House) -> None:
    script = house.root / ".ci" / "run"
    subprocess.run(
        ["bash", script], env=house.env, stdin=subprocess.DEVNULL, check=True, capture_output=True
    )
    assert house.calls("-m", "ruff") == [["check", "."], ["format", "--check", "."]]
    assert house.calls("-m", "mypy") == [[]]
    (pytest_words,) = house.calls("-m", "pytest")
    assert pytest_words[0] == "-n"
    assert {"not soak", "--ignore=tests/benchmarks"} <= set(pytest_words[2:])


def test_soak_and_bench_hand_their_words_to_pytest(house: House) -> None:
    house.run("soak", "-x")
    house.run("bench", "-k", "attention")
    assert house.calls("-m", "pytest") == [
        ["-m", "soak", "--ignore=tests/benchmarks", "-x"],
        ["tests/benchmarks", "--benchmark-enable", "-k", "attention"],
    ]
