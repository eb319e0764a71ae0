"""From a plan to records: train what is missing, then time what is missing, and lose nothing."""

from __future__ import annotations

import contextlib
import subprocess
from collections import Counter
from collections.abc import Sequence
from typing import Any

from ablations.config import FOLDER
from ablations.launch import Job, Launcher, Outcome, Progress
from ablations.plan import Plan, Want, merge_into, missing, untimed
from ablations.progress import Display
from ablations.record import TRAINED, Reading, Record, Results

FAILED = ("error", "oom", "timeout", "killed")


def run(
    plan: Plan,
    results: Results,
    launcher: Launcher,
    device: str,
    imports: Sequence[str] = (),
    rerun: str | None = None,
) -> Counter[str]:
    """Run what the folder lacks; count how the jobs ended."""
    merge_into(results, plan)
    lacks = missing(plan, results, rerun)
    notes = list(lacks.set_aside)
    if lacks.stale and rerun != "stale":
        notes.append(
            f"{len(lacks.stale)} records were made by other code and count as stale; "
            "--rerun stale makes them anew"
        )
    if lacks.failed and rerun != "failed":
        notes.append(f"{len(lacks.failed)} trials failed earlier; --rerun failed tries them again")
    setting = {"device": device, "imports": list(imports)}
    jobs = {want.trial: _trial_job(want, None, results, setting) for want in lacks.train}
    jobs |= {want.trial: _trial_job(want, old, results, setting) for want, old in lacks.measure}
    sessions = _sessions(plan, results, set(jobs), setting)
    expected = {trial: _work(plan.wanted[trial]) for trial in jobs}
    titles = {trial: plan.wanted[trial].title for trial in jobs}
    counts: Counter[str] = Counter()
    with Display(len(jobs) + len(sessions), 0, expected, launcher.capacity) as display:
        for note in notes:
            display.say(note)
        for job in jobs.values():
            launcher.submit(job)
        for event in launcher.events():
            if isinstance(event, Progress):
                if event.fraction == 0:
                    display.started(event.job, titles[event.job])
                display.progress(event.job, event.fraction, event.note)
                continue
            title = titles[event.job]
            if event.status != "done" and jobs[event.job].payload["record"] is not None:
                # A measure that was added later has failed: what the trial knows already stays.
                counts[event.status] += 1
                note = event.reason or ""
                display.finished(event.job, title, event.status, event.seconds, note)
                continue
            record = _record_of(event, plan.wanted[event.job], setting)
            results.write(record)
            if record.status in TRAINED:  # any other may go on from its checkpoint
                results.end_training(record.trial)
            counts["error" if record.reason and record.status == "ok" else record.status] += 1
            display.finished(event.job, title, record.status, event.seconds, _headline(record))
        for job in sessions:  # one at a time: timing has the machine to itself
            counts[_time(job, plan, results, launcher, display)] += 1
    return counts


def _trial_job(want: Want, record: Record | None, results: Results, setting: dict[str, Any]) -> Job:
    held = set() if record is None else set(record.measures)
    payload = {
        **setting,
        "trial": want.trial,
        "config": want.config,
        "counts": want.counts,
        "code": want.code,
        "measures": [name for name in want.measures if name not in held],
        "record": None if record is None else record.to_dict(),
        "checkpoint": str(results.checkpoint(want.trial)),
        "in_training": str(results.in_training(want.trial)),
        "env": code_version(),
    }
    return Job(want.trial, "ablations.worker:run_trial", payload)


def _record_of(outcome: Outcome, want: Want, setting: dict[str, Any]) -> Record:
    """What the worker returned, or what is known of a trial whose worker failed."""
    if outcome.status == "done":
        return Record.from_dict(outcome.value)
    reason = outcome.reason or outcome.status
    if outcome.detail:
        reason = f"{reason}\n{outcome.detail}"
    env = {**code_version(), "code": want.code, "device": setting["device"]}
    env["seconds"] = round(outcome.seconds, 3)
    return Record(want.trial, outcome.status, want.config, reason=reason, env=env)


def _headline(record: Record) -> str:
    if record.reason:
        return record.reason.splitlines()[0]
    losses = [r for r in record.readings if (r.metric, r.split) == ("loss", "valid")]
    return f"valid loss {losses[-1].value:.3f}" if losses and losses[-1].value is not None else ""


def _work(want: Want) -> float:
    """The relative size of a trial: its arithmetic."""
    train = want.config["train"]
    return float(want.counts["flops_per_token"] * train["steps"] * train["batch_tokens"])


def _sessions(
    plan: Plan, results: Results, running: set[str], setting: dict[str, Any]
) -> list[Job]:
    """One timing session for each reference: its candidates that have no times yet."""
    groups: dict[tuple[str, str], dict[str, Any]] = {}
    for want in plan.wanted.values():
        fresh = want.trial in running
        lacks = want.timings if fresh else untimed(want, results.read(want.trial))
        for pair in lacks:
            groups.setdefault(pair, {})[want.trial] = want.config
    return [
        Job(
            f"{measure}:{reference}",
            "ablations.worker:run_session",
            {
                **setting,
                "measure": measure,
                "against": reference,
                "reference": plan.wanted[reference].config,
                "candidates": candidates,
                "timing": plan.profile.timing,
                "env": code_version(),
                "code": plan.wanted[reference].code,
            },
        )
        for (measure, reference), candidates in groups.items()
    ]


def _time(job: Job, plan: Plan, results: Results, launcher: Launcher, display: Display) -> str:
    """Run one session and add its readings to the records of its candidates."""
    reference = plan.wanted[job.payload["against"]]
    trained = {
        trial: config
        for trial, config in job.payload["candidates"].items()
        if untimed(plan.wanted[trial], results.read(trial))
    }
    title = f"{job.payload['measure']} of {len(trained)} beside {reference.title}"
    if not trained:
        display.finished(job.id, title, "ok", 0.0, "nothing trained to be timed")
        return "ok"
    display.started(job.id, title)
    launcher.submit(Job(job.id, job.call, {**job.payload, "candidates": trained}, job.threads))
    status = "error"
    for event in launcher.events():
        if isinstance(event, Progress):
            display.progress(event.job, event.fraction, event.note)
            continue
        status = "ok" if event.status == "done" else event.status
        taken = event.value or {"readings": {}}
        for trial, readings in taken["readings"].items():
            record = results.read(trial)
            assert record is not None
            sessions = {**record.env.get("sessions", {}), taken["session"]: taken["env"]}
            record.env["sessions"] = sessions
            record.readings += [Reading(**reading) for reading in readings]
            if job.payload["measure"] not in record.measures:
                record.measures.append(job.payload["measure"])
            results.write(record)
        display.finished(job.id, title, status, event.seconds, event.reason or "")
    return status


def code_version() -> dict[str, Any]:
    """The commit that runs, and whether files differ from it; null outside a checkout."""
    if not _VERSION:
        commit, changed = (
            _git(*words) for words in (("rev-parse", "HEAD"), ("status", "-s", "-uno"))
        )
        _VERSION.update(commit=commit, dirty=None if commit is None else bool(changed))
    return dict(_VERSION)


_VERSION: dict[str, Any] = {}


def _git(*words: str) -> str | None:
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(
            ["git", "-C", str(FOLDER), *words],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
        return done.stdout.strip()
    return None
