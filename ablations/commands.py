"""What each command does. Heavy imports wait until a command needs them."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ablations.config import parse_overrides
from ablations.expand import catalogue, find, read_ablation
from ablations.record import STATUSES, Record, RecordError, Results, write_atomic
from model.config import ConfigError, nearest

BAD_INPUT = 2


def main(argv: Sequence[str]) -> int:
    try:
        command, options = _parse(argv)
        return _COMMANDS[command][0](options)
    except (ConfigError, RecordError) as error:
        print(error, file=sys.stderr)
        return BAD_INPUT
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        print(f"{error.strerror or error}{where}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Stopped. The same command goes on from here.", file=sys.stderr)
        return 130


def _parse(argv: Sequence[str]) -> tuple[str, argparse.Namespace]:
    """Names, options and overrides in any order."""
    words = list(argv)
    if not words or words[0] in ("-h", "--help", "help"):
        print("python -m ablations COMMAND [NAME|FILE.yaml …] [options] [path=value …]\n")
        for name, (_, meaning) in _COMMANDS.items():
            print(f"  {name:<8}{meaning}")
        print("\npython -m ablations COMMAND --help lists a command's options.")
        sys.exit(0 if words else BAD_INPUT)
    command = words.pop(0)
    if command not in _COMMANDS:
        raise ConfigError([f"no command '{command[:100]}'. {nearest(command[:100], _COMMANDS)}"])
    parser = _parser(command)
    takes = {o for a in parser._actions if a.nargs is None for o in a.option_strings}
    overrides: list[str] = []
    rest: list[str] = []
    for before, word in zip(["", *words], words, strict=False):
        is_override = "=" in word and not word.startswith("-") and before not in takes
        (overrides if is_override else rest).append(word)
    options = parser.parse_intermixed_args(rest)
    options.overrides = parse_overrides(overrides)
    if options.overrides and command not in ("plan", "run"):
        raise ConfigError([f"{command} takes no path=value"])
    return command, options


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        known = [o for action in self._actions for o in action.option_strings]
        wrong = re.search(r"unrecognized arguments: (\S+)", message)
        if wrong:
            message = f"no option '{wrong[1]}'. {nearest(wrong[1], known)}"
        raise ConfigError([message])


def _parser(command: str) -> argparse.ArgumentParser:
    parser = _Parser(prog=f"python -m ablations {command}", description=_COMMANDS[command][1])
    parser.allow_abbrev = False
    if command in ("show", "try"):
        parser.add_argument("trial", help="a trial's id, or its first digits")
        if command == "try":
            parser.add_argument("input", help="what to ask, such as a word")
            parser.add_argument("--figure", metavar="FILE.svg", help="draw the attention there too")
    else:
        parser.add_argument("names", nargs="*", metavar="NAME", help="default: the whole catalogue")
    if command not in ("show", "try"):
        parser.add_argument("--json", action="store_true", help="one JSON document, nothing else")
    if command != "list":
        parser.add_argument("--profile", default="quick", help="smoke, quick, full or gpu")
        parser.add_argument("--results", metavar="DIR", help="default: results/<profile>")
    if command in ("plan", "run"):
        parser.add_argument("--seeds", type=_seeds, metavar="0,1,2", help="default: the profile's")
        parser.add_argument(
            "--import",
            dest="imports",
            action="append",
            default=[],
            metavar="MODULE",
            help="a module with parts of your own",
        )
        parser.add_argument("--rerun", choices=("stale", "failed"), help="make these records anew")
    if command == "run":
        parser.add_argument("--jobs", type=_positive, help="trials at once; default: one per core")
        parser.add_argument("--device", help="default: the accelerator if there is one, else cpu")
    return parser


_wrong = argparse.ArgumentTypeError


def _seeds(text: str) -> list[int]:
    try:
        seeds = [int(part) for part in text.split(",")]
    except ValueError:
        raise _wrong(f"--seeds {text}: expected whole numbers such as 0,1,2") from None
    if min(seeds) < 0:
        raise _wrong(f"--seeds {text}: a seed must not be negative")
    if len(set(seeds)) < len(seeds):
        raise _wrong(f"--seeds {text}: a seed stands twice")
    return seeds


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise _wrong(f"--jobs {text}: expected a whole number from 1")
    return int(text)


def _results(options: argparse.Namespace) -> Results:
    return Results(options.results or os.path.join("results", options.profile))


def list_catalogue(options: argparse.Namespace) -> int:
    named = [find(word) for word in options.names] or list(catalogue().items())
    found = {name: read_ablation(path)[0] for name, path in named}
    if options.json:
        rows = [
            {
                "name": name,
                "question": ablation.question,
                "task": ablation.task,
                "control": ablation.control,
                "variants": list(ablation.variants),
                "claims": [claim["id"] for claim in ablation.claims],
            }
            for name, ablation in found.items()
        ]
        print(json.dumps(rows, indent=1, ensure_ascii=False))
        return 0
    width = max(map(len, found), default=0)
    for name, ablation in found.items():
        rivals = ", ".join(label for label in ablation.variants if label != ablation.control)
        print(f"{name:<{width}}  {ablation.question}")
        print(f"{'':<{width}}  {ablation.control} against {rivals}, on {ablation.task}")
    return 0


def _plan(options: argparse.Namespace) -> Any:
    """The plan of the named ablations; names are checked before anything heavy is loaded."""
    names = options.names or list(catalogue())
    for word in names:
        find(word)
    for module in options.imports:
        _import(module)
    from ablations.plan import make_plan

    return make_plan(names, options.profile, options.overrides, options.seeds)


def _import(module: str) -> None:
    sys.path.insert(0, os.getcwd())
    try:
        importlib.import_module(module)
    except (ImportError, TypeError, ValueError) as error:
        raise ConfigError([f"--import {module}: {error}"]) from None
    finally:
        sys.path.pop(0)


def show_plan(options: argparse.Namespace) -> int:
    plan = _plan(options)
    from ablations.plan import missing, seconds_per_step
    from ablations.progress import roughly

    lacks = missing(plan, _results(options), options.rerun, dry=True)
    training = {want.trial for want in lacks.train}
    per_step: dict[str, float] = {}
    seconds = 0.0
    rows = []
    for name, (ablation, cells) in plan.ablations.items():
        for cell in cells:
            if cell.seed != plan.seeds[0]:
                continue
            same = [c for c in cells if (c.label, c.across) == (cell.label, cell.across)]
            want = plan.wanted[cell.trial]
            if cell.trial not in per_step:
                per_step |= dict.fromkeys([c.trial for c in same], seconds_per_step(want))
                todo = sum(c.trial in training for c in same)
                seconds += todo * per_step[cell.trial] * cell.config["train"]["steps"]
            rows.append(
                {
                    "ablation": name,
                    "variant": ":".join((cell.label, *cell.across.values())),
                    "control": cell.label == ablation.control,
                    "parameters": want.counts["parameters"],
                    "flops_per_token": want.counts["flops_per_token"],
                    "steps": cell.config["train"]["steps"],
                    "seconds_per_trial": per_step[cell.trial] * cell.config["train"]["steps"],
                    "trials": [c.trial for c in same],
                }
            )
    workers = os.cpu_count() or 1
    totals = {
        "trials": len(plan.wanted),
        "done": len(plan.wanted) - len(training),
        "seconds": seconds / workers,
    }
    if options.json:
        print(json.dumps({**totals, "variants": rows}, indent=1))
        return 0
    from rich.console import Console
    from rich.table import Column, Table
    from rich.text import Text

    table = Table("question", "variant", *(Column(t, justify="right") for t in _COLUMNS), box=None)
    for row in rows:
        table.add_row(
            Text(row["ablation"]),
            Text(row["variant"] + (" (control)" if row["control"] else "")),
            f"{row['parameters']:,}",
            f"{row['flops_per_token']:,.0f}",
            f"{row['steps']:,}",
            f"{row['seconds_per_trial']:,.0f}",
            str(len(row["trials"])),
        )
    Console().print(table)
    print(
        f"{totals['trials']} trials, {totals['done']} done; the rest takes "
        f"{roughly(totals['seconds'])} of training on {workers} cores"
    )
    return 0


_COLUMNS = ("parameters", "FLOPs/token", "steps", "s/trial", "seeds")


def run_plan(options: argparse.Namespace) -> int:
    plan = _plan(options)
    from ablations.device import pick_device
    from ablations.expand import announce
    from ablations.launch.local import LocalLauncher
    from ablations.runner import FAILED, run

    results = _results(options)
    device = str(pick_device(options.device))
    jobs = options.jobs or (1 if device != "cpu" else os.cpu_count() or 1)
    announce(want.config["task"] for want in plan.wanted.values())
    with LocalLauncher(jobs, preload=["torch", "ablations.warm"]) as launcher:
        counts = run(plan, results, launcher, device, options.imports, options.rerun)
    ended = ", ".join(f"{number} {status}" for status, number in sorted(counts.items()))
    print(f"{len(plan.wanted)} trials in {results.root}; {ended or 'nothing was left to run'}")
    return 1 if any(counts[status] for status in FAILED) else 0


def show_status(options: argparse.Namespace) -> int:
    from ablations.expand import code, freeze

    results = _results(options)
    ablations = results.read_plan()["ablations"]
    for name in options.names:
        if name not in ablations:
            hint = nearest(name, ablations)
            raise ConfigError([f"no ablation '{name[:100]}' in {results.root}. {hint}"])
    counts = Counter(dict.fromkeys((*STATUSES, "stale", "waiting"), 0))
    reasons = []
    names = options.names or list(ablations)
    cells = [cell for name in names for cell in ablations[name]["cells"]]
    for trial in {cell["trial"]: None for cell in cells}:
        try:
            record = results.read(trial)
        except RecordError as error:
            counts["waiting"] += 1
            reasons.append(str(error))
            continue
        if record is None:
            counts["waiting"] += 1
            continue
        counts[record.status] += 1
        config = record.config
        with contextlib.suppress(ConfigError):  # a part from a module that is not loaded here
            made_now = code(*(freeze(config[part]) for part in ("model", "task", "train")))
            counts["stale"] += record.env.get("code") != made_now
        if record.reason:
            reasons.append(f"{trial} {record.status}: {record.reason.splitlines()[0]}")
    if options.json:
        print(json.dumps({**counts, "reasons": reasons}, indent=1, ensure_ascii=False))
        return 0
    print(", ".join(f"{number} {status}" for status, number in counts.items() if number))
    for line in reasons:
        print(f"  {line}")
    return 0


def show_record(options: argparse.Namespace) -> int:
    print(json.dumps(_find_record(options)[1].to_dict(), indent=1, ensure_ascii=False))
    return 0


def try_trial(options: argparse.Namespace) -> int:
    results, record = _find_record(options)
    from ablations.answer import answer, drawn, picture

    reply = answer(record, results, options.input)
    print(f"{options.input} → {reply.text}    probability {reply.probability:.2g}\n")
    print(drawn(reply))
    if options.figure:
        write_atomic(Path(options.figure), picture(reply))
        print(f"\n{options.figure}")
    return 0


def _find_record(options: argparse.Namespace) -> tuple[Results, Record]:
    results = _results(options)
    if not re.fullmatch(r"[0-9a-f]{1,12}", options.trial):
        raise ConfigError([f"'{options.trial[:100]}': a trial's id is up to 12 digits 0-9a-f"])
    found = sorted(path.stem for path in results.trials.glob(f"{options.trial}*.json"))
    if len(found) != 1:
        kind = "no trial" if not found else f"{len(found)} trials"
        raise ConfigError([f"{kind} '{options.trial}…' in {results.root}"])
    record = results.read(found[0])
    assert record is not None
    return results, record


_COMMANDS: dict[str, tuple[Callable[[argparse.Namespace], int], str]] = {
    "list": (list_catalogue, "the catalogue of questions"),
    "plan": (show_plan, "what would run, with parameters, FLOPs and time"),
    "run": (run_plan, "run what is missing"),
    "status": (show_status, "what is done, failed, stale or waiting"),
    "show": (show_record, "one trial's record"),
    "try": (try_trial, "a trained model's answer to your own input"),
}
