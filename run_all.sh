#!/usr/bin/env bash
# Set up, run the experiments, write the report. `./run_all.sh help` says how.
set -euo pipefail
unset PYTHONHOME PYTHONPATH

here=$PWD
root=$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
venv=$root/.venv
python=$venv/bin/python
stamp=$venv/installed
log=$venv/setup.log

usage() {
    cat <<'END'
./run_all.sh [smoke|quick|full|gpu] [--results DIR] [key=value ...]
    set up, run the experiments at that profile (default: quick), write the report;
    run again, it goes on where it stopped. DIR is results/<profile> unless given.
    All other words go to `ablations run`.
./run_all.sh test [...]     lint, types and tests; further words go to pytest
./run_all.sh soak [...]     the long fault and statistics tests
./run_all.sh bench [...]    the benchmarks
./run_all.sh setup          only set up: .venv with what pyproject.toml pins
PYTHON=python3.12 ./run_all.sh ...    choose the Python that .venv is made with
END
}

say() { printf 'run_all.sh: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }
refuse() { say "$*"; exit 2; }

# Prints the version, then fails where no virtual environment can be made (Debian splits it off).
probe='import sys; print("%d.%d" % sys.version_info[:2]); import ensurepip, venv'

# The first Python that is new enough. Each is executed: a name on the path may be a broken shim.
find_python() {
    local name version complete old="" bare=""
    for name in ${PYTHON:+"$PYTHON"} python3 python3.14 python3.13 python3.12 python3.11 python; do
        complete=yes
        version=$("$name" -c "$probe" 2>/dev/null </dev/null) || complete=no
        [[ $version =~ ^([0-9]+)\.([0-9]+)$ ]] || continue
        if ((BASH_REMATCH[1] * 1000 + BASH_REMATCH[2] < 3011)); then
            old=${old:-"$name is Python $version, which is too old"}
        elif [[ $complete == no ]]; then
            bare=${bare:-$version}
        else
            printf '%s\n' "$name"
            return
        fi
    done
    [[ -z $bare ]] || fail "Python $bare has no venv module: install it" \
        "(Debian and Ubuntu: apt install python$bare-venv), then run this again"
    fail "${old:-no Python found}: install Python 3.11 or newer, or name one: PYTHON=/path/to/python3"
}

# The stamp holds this line; it is written last, so an interrupted set-up never has it.
fingerprint() {
    printf '%s, Python %s, %s' "$(cksum <"$root/pyproject.toml")" \
        "$("$python" -c "$probe" 2>/dev/null </dev/null)" "$root"
}

is_ready() { # a .venv with the test extra serves the profiles too
    [[ -x $python && -f $stamp ]] || return 1
    local held known
    held=$(<"$stamp")
    known=$(fingerprint)
    [[ $held == "$known, $1" || $held == "$known, .[test]" ]]
}

make_venv() {
    local base last
    # Moved before it is deleted: half a deleted .venv must never look like a whole one.
    rm -rf "$venv.old"
    [[ ! -e $venv && ! -L $venv ]] || mv "$venv" "$venv.old"
    rm -rf "$venv.old"
    base=$(find_python) || exit
    say "making .venv with $base"
    mkdir "$venv" 2>/dev/null || fail "cannot write in $root: make it writable, or clone it elsewhere"
    echo unfinished >"$stamp"
    "$base" -m venv "$venv" >"$log" 2>&1 && return
    last=$(tail -n 1 "$log")
    rm -rf "$venv"
    fail "$base could not make .venv (${last:-no reason given}): mend that, or name another:" \
        "PYTHON=/path/to/python3 ./run_all.sh"
}

explain_pip() { # what went wrong, in one line with the fix
    local offline='NewConnectionError|NameResolutionError|ConnectTimeout|Read ?timed ?out|ProxyError'
    offline+='|SSLError|Max retries exceeded|connection broken|Connection (reset|refused|aborted)'
    offline+='|Temporary failure in name resolution|Network is unreachable|IncompleteRead'
    if grep -qE 'No space left on device|Errno 28|Disk quota exceeded' "$log"; then
        fail "no space left on the disk: free 3 to 6 GB in $root and in ${TMPDIR:-/tmp} (log: $log)"
    elif grep -qiE "$offline" "$log"; then
        fail "no network: pip could not reach its package index; check the connection or proxy" \
            "and run this again (log: $log)"
    elif grep -q 'No matching distribution' "$log"; then
        fail "pip finds no $(sed -n 's/.*No matching distribution found for //p' "$log" | tail -n 1)" \
            "for this Python: name another, as in PYTHON=python3.12 ./run_all.sh (log: $log)"
    fi
    fail "pip failed: see $log, mend that or remove .venv, then run this again" \
        "($(grep -i 'error' "$log" | tail -n 1))"
}

install_pins() { # install_pins . | install_pins '.[test]'
    local fresh=no code=0 interrupted=no
    if [[ ! -x $python || $(cat "$stamp" 2>/dev/null) == unfinished ]] ||
        ! "$python" -m pip --version >/dev/null 2>&1; then
        fresh=yes
        make_venv
    fi
    say "installing what pyproject.toml pins (the first time takes minutes)"
    echo unfinished >"$stamp"
    trap 'interrupted=yes' INT
    (cd "$root" && exec "$python" -m pip install --disable-pip-version-check --no-input -e "$1") \
        >"$log" 2>&1 </dev/null || code=$?
    trap - INT
    if [[ $interrupted == yes ]] || ((code >= 128)); then
        say "set-up interrupted: run this again to complete it"
        exit 130
    elif ((code)); then
        # Unlike an interrupted one, a .venv in which pip failed can be completed.
        [[ $fresh == yes ]] || rm -f "$stamp"
        explain_pip
    fi
    printf '%s, %s\n' "$(fingerprint)" "$1" >"$stamp"
}

set_up() {
    ! is_ready "$1" || return 0
    # pip inherits the lock: should it outlive this script, the next one waits for it.
    exec 9<"$root/run_all.sh"
    if command -v flock >/dev/null && ! flock -n 9; then
        say "waiting for another set-up of this folder"
        flock 9 || true
    fi
    if ! is_ready "$1"; then install_pins "$1"; fi
    exec 9<&-
}

run_experiments() {
    local profile=$1 word
    shift
    for word in "$@"; do
        case $word in
            -h | --help) usage && exit ;;
            --profile | --profile=*) refuse "the profile is the first word: ./run_all.sh smoke" ;;
        esac
    done
    [[ " $*" == *" --results"* ]] || set -- --results "$root/results/$profile" "$@"
    set_up .
    # Files are named from where the user stands, yet a `model` folder there must not hide ours.
    export PYTHONSAFEPATH=1 PYTHONPATH="$root:$here"
    say "running the experiments ($profile)"
    exec "$python" -m ablations run --profile "$profile" "$@" # which ends with the report
}

check() { # lint, types, tests
    say "ruff"
    "$python" -m ruff check .
    "$python" -m ruff format --check .
    say "mypy"
    "$python" -m mypy
    say "pytest"
    # Neighbours stay together, so that what a file or a folder sets up is set up once.
    exec "$python" -m pytest -n "$(getconf _NPROCESSORS_ONLN)" --dist worksteal -m "not soak" \
        --ignore=tests/benchmarks "$@"
}

command=${1-quick}
case $command in
    smoke | quick | full | gpu) run_experiments "$command" "${@:2}" ;;
    -h | --help | help) usage && exit ;;
    -* | *=*) run_experiments quick "$@" ;;
    test | soak | bench) ;;
    setup) (($# == 1)) || refuse "setup takes no further words" ;;
    *) refuse "unknown word '$command': use smoke, quick, full or gpu (an experiment's name comes" \
        "after it: ./run_all.sh quick NAME), or test, soak, bench, setup, help" ;;
esac

set_up '.[test]'
cd "$root"
[[ $command == bench ]] || export OMP_NUM_THREADS=1 MKL_NUM_THREADS=1
case $command in
    test) check "${@:2}" ;;
    soak) exec "$python" -m pytest -m soak --ignore=tests/benchmarks "${@:2}" ;;
    bench)
        where=(tests/benchmarks) # unless some of them are named
        for word in "${@:2}"; do [[ $word != tests/* ]] || where=(); done
        exec "$python" -m pytest ${where[@]+"${where[@]}"} --benchmark-enable "${@:2}"
        ;;
esac
