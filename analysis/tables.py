"""The results as tables: full precision in CSV, readable digits in Markdown, LaTeX and HTML; and
every measurement as one tidy file."""

from __future__ import annotations

import gzip
import html
import json
import math
from collections.abc import Callable, Mapping
from csv import QUOTE_NONNUMERIC
from pathlib import Path
from typing import Any

import pandas as pd
from pandas.api.types import is_numeric_dtype

from ablations.store.files import write_atomic
from analysis.contrasts import Evidence
from analysis.load import Loaded, Row, crossing
from analysis.timing import CURVE, SAME, crossings, curves, exponents, on_curves
from analysis.wording import (
    after_heading,
    count,
    duration,
    first_few,
    memory,
    number,
    short,
    times,
    variant_name,
    with_interval,
)

CAPTION = (
    "In brackets: 95 % t-intervals over seeds. A difference to the baseline is paired by seed. "
    "better or worse (higher or lower where nothing is trained): its interval excludes 0. "
    "tie: its interval lies inside plus or minus what matters on this task. not resolved: neither. "
    "few seeds: fewer than three, so numbers and no mark. failed: seeds broke down, so what is "
    "left would flatter that side."
)
SOMETIMES = ("tokens/s", "peak memory", "step time", "tuned to")
"""Columns that a table has only where a variant has such a value."""
MEASUREMENTS = "measurements.csv.gz"
MEANINGS = {
    "experiment": "the experiment, as the plan names it",
    "variant": "the variant",
    "factors": "the levels of factors, such as depth=2",
    "is_baseline": "1 for the baseline that others are compared with",
    "task": "where the data come from",
    "seed": "the seed of first weights and batches",
    "trial": "the trial; experiments that share it repeat its rows",
    "settings": "digest of all that decides its numbers but the seed",
    "status": "how it ended: ok, diverged, stuck, oom, error, timeout or killed",
    "source": "what took the measurement; training is the loop itself",
    "metric": "what was measured",
    "split": "the part of the data: train, valid or test; empty where none is read",
    "unit": "the unit of value, samples or values",
    "value": "the number; empty where there is an array or a reason",
    "reason": "why there is no value",
    "session": "the timing session and, after the point, its process",
    "baseline_trial": "the trial whose times are in reference",
    "samples": "one time for each block, as JSON",
    "baseline_samples": "the baseline's times in the same blocks, as JSON",
    "baseline_again": "the baseline timed again in the same blocks, as JSON",
    "axes": "of values, from the outermost in: name and places, as JSON",
    "values": "a small array, as JSON",
    "step": "training steps done",
}
"""Column → meaning. The coordinates of a measurement follow, a column each."""


def write(evidence: Evidence) -> list[Path]:
    """Write every table in every form, and every measurement, to DIR/tables/."""
    entries = evidence.loaded.experiments
    views = {
        "contrasts": {
            f"{name}: {question_of(entries[name])}": view
            for name, view in contrasts_views(evidence).items()
        },
        "speed": {"Times at single places": speed_view(singles(evidence)), **curve_views(evidence)},
    }
    contents: dict[str, str | bytes] = {
        "contrasts.csv": csv(contrasts_frame(evidence)),
        "speed.csv": csv(evidence.speeds),
    }
    for name, held in views.items():
        lead = CAPTION if name == "contrasts" else ""
        contents[f"{name}.md"] = markdown_file(held, lead)
        contents[f"{name}.tex"] = latex_file(held, lead)
        contents[f"{name}.html"] = html_file(held, lead)
    whole = csv(measurements(evidence.loaded)).encode()
    contents[MEASUREMENTS] = gzip.compress(whole, compresslevel=6, mtime=0)
    contents["measurements.md"] = explained(evidence.loaded)
    folder = evidence.loaded.root / "tables"
    for name, content in contents.items():
        write_atomic(folder / name, content)
    return [folder / name for name in contents]


def question_of(entry: Mapping[str, Any]) -> str:
    """An experiment's question; where variants are tuned, it says so."""
    question = str(entry["question"])
    return f"{question} (each variant tuned)" if entry["arms"] == "tuned" else question


# --- forms


def csv(frame: pd.DataFrame) -> str:
    """A frame as CSV: numbers are exact, lists and dictionaries are JSON."""
    texts = [str(name) for name in frame if not is_numeric_dtype(frame[name])]
    flat = frame.assign(**{name: frame[name].astype(object).map(_cell) for name in texts})
    # Quoted, or a carriage return in a label would begin a line of its own.
    return flat.to_csv(index=False, lineterminator="\n", quoting=QUOTE_NONNUMERIC)


def _cell(cell: Any) -> Any:
    return json.dumps(cell) if isinstance(cell, list | dict) else cell


def markdown(view: pd.DataFrame) -> str:
    """A table in Markdown that pipes and tags in names do not break."""
    if view.empty:
        return "Nothing yet.\n"
    return _escaped(view, escape).to_markdown(index=False, disable_numparse=True) + "\n"


def escape(text: str) -> str:
    """Text in Markdown: no pipe ends its cell, no tag or link starts in it, no line breaks it."""
    return " ".join(text.split()).translate(_MARKDOWN)


_MARKDOWN = str.maketrans({**{c: f"\\{c}" for c in "\\|`*_["}, "&": "&amp;", "<": "&lt;"})


def tex(text: str) -> str:
    """Text as LaTeX prints it."""
    return " ".join(text.split()).replace("--", "-{}-").translate(_TEX)


_TEX = str.maketrans(
    {
        **{c: f"\\{c}" for c in "{}$&#%_"},
        **{"\\": r"\textbackslash{}", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}"},
        **{"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", "[": "{[}"},
        **{"−": "$-$", "×": r"$\times$", "±": r"$\pm$", "√": r"$\surd$", "…": r"\dots{}"},
    }
)


def _escaped(view: pd.DataFrame, form: Callable[[str], str]) -> pd.DataFrame:
    return view.astype(str).map(form).rename(columns=lambda name: form(str(name)))


def markdown_file(views: Mapping[str, pd.DataFrame], lead: str = "") -> str:
    parts = [f"**{escape(title)}**\n\n{markdown(view)}" for title, view in views.items()]
    return "\n".join([f"{lead}\n"] * bool(lead) + parts)


def latex_file(views: Mapping[str, pd.DataFrame], lead: str = "") -> str:
    """Tables with booktabs, which a document takes with \\input."""
    parts = [r"% \usepackage{booktabs}"]
    for title, view in views.items():
        caption = tex(f"{title}{'' if title.endswith('?') else '.'} {lead}".strip())
        if view.empty:
            parts.append(f"% {caption} Nothing yet.")
            continue
        style = _escaped(view, tex).style.hide(axis="index")
        parts.append(style.to_latex(hrules=True, caption=caption, position_float="centering"))
    return "\n".join(parts) + "\n"


def html_file(views: Mapping[str, pd.DataFrame], lead: str = "") -> str:
    """Fragments: a heading and a table each."""
    parts = [f"<p>{html.escape(lead)}</p>"] * bool(lead)
    for title, view in views.items():
        with pd.option_context("display.max_colwidth", None):
            table = view.to_html(index=False, border=0) if len(view) else "<p>Nothing yet.</p>"
        parts.append(f"<h3>{html.escape(title)}</h3>\n{table}")
    return "\n".join(parts) + "\n"


# --- contrasts


def contrasts_frame(evidence: Evidence) -> pd.DataFrame:
    """The contrasts with how variants were set, and the time and memory of a training step where it
    was timed at one place."""
    entries = evidence.loaded.experiments
    frame = evidence.contrasts.copy()
    frame.insert(0, "question", frame["experiment"].map({k: e["name"] for k, e in entries.items()}))
    frame.insert(2, "arms", frame["experiment"].map({k: e["arms"] for k, e in entries.items()}))
    tuned = {
        (name, cell["variant"], crossing(cell["factors"])): cell["tuned"]
        for name, entry in entries.items()
        for cell in entry["trials"]
        if cell["role"] == "report"
    }
    steps = evidence.speeds[evidence.speeds["metric"] == "step_time"]
    key = ["experiment", "variant", "factors"]
    timed = _by(key, steps[~steps.duplicated(key, keep=False)])  # of several none stands for all
    for prefix, label in (("", "variant"), ("baseline_", "baseline")):
        variants = list(zip(frame["experiment"], frame[label], frame["factors"], strict=True))
        frame[f"{prefix}tuned_to"] = [tuned.get(variant, {}) for variant in variants]
        for name in ("tokens_per_second", "peak_memory"):
            frame[f"{prefix}{name}"] = [timed.get(v, {}).get(name, math.nan) for v in variants]
        if not prefix:
            own = [timed.get(variant, {}) for variant in variants]
    for name in ("ratio", "low", "high", "verdict"):
        empty: Any = "" if name == "verdict" else math.nan
        values = [empty if row.get("verdict") == SAME else row.get(name, empty) for row in own]
        frame[f"step_time_{name}"] = values
    return frame


def contrasts_views(evidence: Evidence) -> dict[str, pd.DataFrame]:
    """Each experiment's table to read: the baseline first, then every variant with its
    difference."""
    frame = contrasts_frame(evidence)
    return {
        name: contrasts_view(frame[frame["experiment"] == name].to_dict("records"))
        for name in evidence.loaded.experiments
    }


def contrasts_view(rows: list[Row]) -> pd.DataFrame:
    lines: list[dict[str, str]] = []
    seen: set[str] = set()
    for row in rows:
        if row["factors"] not in seen:
            seen.add(row["factors"])
            lines.append(_baseline_line(row))
        lines.append(_variant_line(row))
    # The last line is a variant's, and only variants have every column.
    view = pd.DataFrame(lines, columns=list(lines[-1]) if lines else None).fillna("")
    return view.drop(columns=[name for name in SOMETIMES if name in view and not view[name].any()])


def _variant_line(row: Row) -> dict[str, str]:
    return {
        "variant": short(row["name"]),
        "mark": row["mark"],
        **_scored(row, row),
        "difference (95 % interval)": with_interval(row["difference"], row["low"], row["high"]),
        "n": f"{row['n']} of {row['planned']}",
        "failures": row["failures"],
        "step time": times(row["step_time_ratio"], row["step_time_low"], row["step_time_high"]),
        "tokens/s": count(row["tokens_per_second"]),
        "peak memory": memory(row["peak_memory"], row["baseline_peak_memory"]),
        "tuned to": _setting(row["tuned_to"]),
        "note": row["note"],
    }


def _baseline_line(row: Row) -> dict[str, str]:
    own = {key.removeprefix("baseline_"): row[key] for key in row if key.startswith("baseline_")}
    own |= {"mean_low": row["baseline_low"], "mean_high": row["baseline_high"]}
    return {
        "variant": f"{short(variant_name(row['baseline'], row['factors']))} (baseline)",
        **_scored(row, own),
        "n": str(own["n"]),
        "failures": own["failures"],
        "tokens/s": count(own["tokens_per_second"]),
        "peak memory": memory(own["peak_memory"]),
        "tuned to": _setting(own["tuned_to"]),
    }


def _scored(row: Row, own: Row) -> dict[str, str]:
    """What baseline and variant both have: size, work and score."""
    heading = f"{row['metric_title']}{after_heading(row['unit'])}"
    return {
        "parameters": count(own["parameters"]),
        "FLOPs/token": count(own["flops_per_token"]),
        heading: with_interval(own["mean"], own["mean_low"], own["mean_high"]),
    }


def _setting(chosen: Mapping[str, Any]) -> str:
    """`lr=0.01`: the last word of each path is enough."""
    return ", ".join(f"{path.rpartition('.')[2]}={value}" for path, value in chosen.items())


# --- times


def singles(evidence: Evidence) -> pd.DataFrame:
    """The timed points that belong to no curve."""
    return evidence.speeds[~on_curves(evidence)]


def speed_view(speeds: pd.DataFrame) -> pd.DataFrame:
    """Timed points to read; several machines get a column that keeps them apart."""
    rows = speeds.to_dict("records")
    view = pd.DataFrame(
        {
            "experiment": row["experiment"],
            "variant": short(row["name"]),
            "verdict": row["reason"] or row["verdict"],
            "timed": row["metric"].replace("_", " "),
            "where": row["where"],
            "baseline_trial": row["baseline_trial"],
            "machine": row["machine"],
            "seconds": number(row["seconds"]),
            "tokens/s": count(row["tokens_per_second"]),
            "time against baseline": times(row["ratio"], row["low"], row["high"]),
            "noise floor": ""
            if math.isnan(row["floor"])
            else f"± {100 * (row['floor'] - 1):.2g} %",
            "processes": str(row["n"]),
            "peak memory": memory(row["peak_memory"], row["baseline_peak_memory"]),
        }
        for row in rows
    )
    same = ["baseline_trial"] * bool((speeds["baseline_trial"] == speeds["baseline"]).all())
    return view.drop(columns=[*same, *["machine"] * (speeds["machine"].nunique() < 2)] * bool(rows))


def curve_views(evidence: Evidence, experiment: str | None = None) -> dict[str, pd.DataFrame]:
    """Each timed curve to read: a variant a row, a length a column, and how it grows."""
    frame = curves(evidence)
    frame = frame[frame["log_seconds"].map(len).gt(0) | frame["reason"].ne("")]
    frame = frame[frame["metric"].isin(set(evidence.speeds["metric"]))]
    if experiment is not None:
        frame = frame[frame["experiment"] == experiment]
    keys = [*(key for key in CURVE if key != "along"), "variant"]
    grows, crosses = (_by(keys, of(frame)) for of in (exponents, crossings))
    found = {}
    for place, panel in frame.groupby(keys[:-1], sort=False):
        name, across, metric, series = place
        cells = panel.assign(
            cell=[_curve_cell(row) for row in panel.to_dict("records")],
            column=[f"{along} {x:g}" for along, x in zip(panel["along"], panel["x"], strict=True)],
        )
        view = cells.pivot(index="variant", columns="column", values="cell")
        order = cells.sort_values("x")["column"].unique()
        view = view.loc[panel["variant"].unique(), order].fillna("")
        grown = [grows.get((*place, label), {}) for label in view.index]
        ends = ("exponent", "low", "high")
        view["exponent"] = [with_interval(*(g.get(end, math.nan) for end in ends)) for g in grown]
        view["changes places at"] = [_crossing_cell(crosses.get((*place, v))) for v in view.index]
        label = evidence.loaded.experiments[name]["metrics"].get(metric, {}).get("title") or metric
        title = ", ".join(part for part in (name, across, series) if part)
        view.index = pd.Index([short(str(label)) for label in view.index], name="variant")
        found[f"{title}: {label}"] = view.reset_index().rename_axis(columns=None)
    return found


def _by(keys: list[str], frame: pd.DataFrame) -> dict[tuple[Any, ...], Row]:
    """The first row of each place."""
    rows = frame.drop_duplicates(keys).to_dict("records") if len(frame) else []
    return {tuple(row[key] for key in keys): row for row in rows}


def _curve_cell(row: Row) -> str:
    """`1.2 ms (0.54 ×)`, or why there is no time."""
    if math.isnan(row["value"]):
        return str(row["reason"]).partition(":")[0]
    ratio = "" if math.isnan(row["ratio"]) else f" ({row['ratio']:.2f} ×)"
    return f"{duration(row['value'])}{ratio}"


def _crossing_cell(row: Row | None) -> str:
    """Between which lengths, where that is shown; an end that no length closes stays open."""
    if row is None:
        return ""
    if not row["changes"]:
        return "not shown"
    ends = ["…" if math.isinf(e) or e == 0 else f"{e:.0f}" for e in (row["low"], row["high"])]
    return " to ".join(ends)


# --- measurements


def measurements(loaded: Loaded) -> pd.DataFrame:
    """One row for each measurement of each trial of the plan that the analysis uses."""
    frame = loaded.measurements
    baselines = {name: entry["baseline"] for name, entry in loaded.experiments.items()}
    tasks = {name: entry["task"] for name, entry in loaded.experiments.items()}
    is_baseline = (frame["variant"] == frame["experiment"].map(baselines)).astype(int)
    added = frame.assign(is_baseline=is_baseline, task=frame["experiment"].map(tasks))
    return added[[*MEANINGS, *_coordinates(loaded)]]


def _coordinates(loaded: Loaded) -> list[str]:
    return sorted(set(loaded.measurements.columns) - set(MEANINGS) - {"coordinates", "where"})


def explained(loaded: Loaded) -> str:
    """What each column of the file means, as Markdown."""
    frame = loaded.measurements
    meanings = dict(MEANINGS)
    for name in _coordinates(loaded):
        used = first_few(sorted(frame[frame[name].notna()]["source"].unique()), 8)
        meanings[name] = f"coordinate of {used}"
    lead = (
        f"**{MEASUREMENTS}**: a row for each of {len(frame):,} measurements. `pandas.read_csv` "
        "reads it as it is. Measurements that other code has taken than the rest of their "
        "experiment are left out, as are trials that only tuned settings.\n"
    )
    return f"{lead}\n{markdown(pd.DataFrame(meanings.items(), columns=['column', 'meaning']))}"
