"""The results as tables: full precision in CSV, readable digits in Markdown, LaTeX and HTML."""

from __future__ import annotations

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
from analysis import readings
from analysis.contrasts import Evidence
from analysis.curves import crossings, curves, exponents, on_curves
from analysis.load import crossing
from analysis.names import after_heading, asked, cell_name, short
from analysis.sentences import bounds, count, duration, number
from analysis.speed import SAME

CAPTION = (
    "In brackets: 95 % t-intervals over seeds. A difference to the control is paired by seed. "
    "better or worse (higher or lower where nothing is trained): its interval excludes 0. "
    "tie: its interval lies inside plus or minus what matters on this task. not resolved: neither. "
    "few seeds: fewer than three, so numbers and no mark. failed: seeds broke down, so what is "
    "left would flatter that side."
)
Row = dict[str, Any]
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
CURVE = ["ablation", "across", "metric", "series", "label"]
SOMETIMES = ("tokens/s", "peak memory", "step time", "tuned to")
"""Columns that a table has only where a variant has such a value."""


def write(evidence: Evidence) -> list[Path]:
    """Write every table in every form, and every reading, to DIR/tables/."""
    entries = evidence.loaded.ablations
    shown = {
        "contrasts": {
            f"{name}: {asked(entries[name])}": view
            for name, view in contrasts_views(evidence).items()
        },
        "speed": {"Times at single places": speed_view(singles(evidence)), **curve_views(evidence)},
    }
    contents: dict[str, str | bytes] = {
        "contrasts.csv": csv(contrasts_frame(evidence)),
        "speed.csv": csv(evidence.speeds),
    }
    for name, views in shown.items():
        lead = CAPTION if name == "contrasts" else ""
        contents[f"{name}.md"] = markdown_file(views, lead)
        contents[f"{name}.tex"] = latex_file(views, lead)
        contents[f"{name}.html"] = html_file(views, lead)
    contents[readings.NAME] = readings.packed(csv(readings.tidy(evidence.loaded)))
    contents["readings.md"] = "\n".join(
        part if isinstance(part, str) else markdown(part)
        for part in readings.explained(evidence.loaded)
    )
    folder = evidence.loaded.root / "tables"
    for name, content in contents.items():
        write_atomic(folder / name, content)
    return [folder / name for name in contents]


# --- forms


def csv(frame: pd.DataFrame) -> str:
    """A frame as CSV that a spreadsheet shows and never runs: text that starts like a formula
    gets an apostrophe in front, lists and dictionaries are JSON, numbers are exact."""
    flat = frame.copy()
    for name in flat:
        if not is_numeric_dtype(flat[name]):
            cells = [inert(cell) for cell in flat[name].astype(object).tolist()]
            flat[name] = pd.Series(cells, index=flat.index, dtype=object)
    # Quoted, or a carriage return in a label would begin a line of its own.
    return flat.to_csv(index=False, lineterminator="\n", quoting=QUOTE_NONNUMERIC)


def inert(cell: Any) -> Any:
    """A cell that no spreadsheet takes for a formula."""
    if isinstance(cell, list | dict):
        return json.dumps(cell)
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA) else cell


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
    """The contrasts with what stands beside them: how arms were set, and the time and memory of a
    training step where it was timed at one place."""
    entries = evidence.loaded.ablations
    frame = evidence.contrasts.copy()
    rows = frame.to_dict("records")
    frame.insert(0, "question", [entries[row["ablation"]]["name"] for row in rows])
    frame.insert(2, "arms", [entries[row["ablation"]]["arms"] for row in rows])
    tuned, timed = _tuned(evidence), _timed(evidence)
    for prefix, label in (("", "label"), ("control_", "control")):
        places = [(row["ablation"], row[label], row["across"]) for row in rows]
        frame[f"{prefix}tuned_to"] = [tuned.get(place, {}) for place in places]
        for name in ("tokens_per_second", "peak_memory"):
            frame[f"{prefix}{name}"] = [timed.get(p, {}).get(name, math.nan) for p in places]
        if not prefix:
            own = [timed.get(place, {}) for place in places]
    for name in ("ratio", "low", "high", "verdict"):
        empty: Any = "" if name == "verdict" else math.nan
        found = [empty if row.get("verdict") == SAME else row.get(name, empty) for row in own]
        frame[f"step_time_{name}"] = found
    return frame


def _tuned(evidence: Evidence) -> dict[tuple[str, str, str], dict[str, Any]]:
    """The settings that tuning chose for each arm."""
    return {
        (name, cell["label"], crossing(cell["across"])): cell["tuned"]
        for name, entry in evidence.loaded.ablations.items()
        for cell in entry["cells"]
        if cell["role"] == "report"
    }


def _timed(evidence: Evidence) -> dict[tuple[str, str, str], Row]:
    """The step time of each arm that was timed at one place; of several none stands for all."""
    frame = evidence.speeds[evidence.speeds["metric"] == "step_time"]
    key = ["ablation", "label", "across"]
    return _by(key, frame[~frame.duplicated(key, keep=False)])


def contrasts_views(evidence: Evidence) -> dict[str, pd.DataFrame]:
    """Each ablation's table to read: the control first, then every variant with its difference."""
    frame = contrasts_frame(evidence)
    return {
        name: contrasts_view(frame[frame["ablation"] == name].to_dict("records"))
        for name in evidence.loaded.ablations
    }


def contrasts_view(rows: list[Row]) -> pd.DataFrame:
    lines: list[dict[str, str]] = []
    crossed: set[str] = set()
    for row in rows:
        if row["across"] not in crossed:
            crossed.add(row["across"])
            lines.append(_control_line(row))
        lines.append(_variant_line(row))
    # The last line is a variant's, and only variants have every column.
    view = pd.DataFrame(lines, columns=list(lines[-1]) if lines else None).fillna("")
    return view.drop(columns=[name for name in SOMETIMES if name in view and not view[name].any()])


def _variant_line(row: Row) -> dict[str, str]:
    ends = ("difference", "low", "high")
    return {
        "variant": short(row["name"]),
        "mark": row["mark"],
        **_arm_cells(row, row.__getitem__),
        "difference (95 % interval)": with_interval(*(row[name] for name in ends)),
        "n": f"{row['n']} of {row['planned']}",
        "failures": row["failures"],
        "step time": times(row["step_time_ratio"], row["step_time_low"], row["step_time_high"]),
        "tokens/s": count(row["tokens_per_second"]),
        "peak memory": memory(row["peak_memory"], row["control_peak_memory"]),
        "tuned to": _setting(row["tuned_to"]),
        "note": row["note"],
    }


def _control_line(row: Row) -> dict[str, str]:
    renamed = {"mean_low": "control_low", "mean_high": "control_high"}
    return {
        "variant": f"{short(cell_name(row['control'], row['across']))} (control)",
        **_arm_cells(row, lambda name: row[renamed.get(name, f"control_{name}")]),
        "n": str(row["control_n"]),
        "failures": row["control_failures"],
        "tokens/s": count(row["control_tokens_per_second"]),
        "peak memory": memory(row["control_peak_memory"]),
        "tuned to": _setting(row["control_tuned_to"]),
    }


def _arm_cells(row: Row, of: Callable[[str], Any]) -> dict[str, str]:
    """What control and variant both have: size, work and score."""
    heading = f"{row['metric_label']}{after_heading(row['unit'])}"
    return {
        "parameters": count(of("parameters")),
        "FLOPs/token": count(of("flops_per_token")),
        heading: with_interval(*(of(name) for name in ("mean", "mean_low", "mean_high"))),
    }


def _setting(chosen: Mapping[str, Any]) -> str:
    """`lr=0.01`: the last word of each path is enough beside the others."""
    return ", ".join(f"{path.rpartition('.')[2]}={value}" for path, value in chosen.items())


# --- times


def singles(evidence: Evidence) -> pd.DataFrame:
    """The timed points that belong to no curve."""
    return evidence.speeds[~on_curves(evidence)]


def speed_view(speeds: pd.DataFrame) -> pd.DataFrame:
    """Timed points to read; several machines get a column that keeps them apart."""
    apart = speeds["machine"].nunique() > 1
    elsewhere = (speeds["against"] != speeds["control"]).any()
    lines = [
        {
            "ablation": row["ablation"],
            "variant": short(row["name"]),
            "verdict": row["reason"] or row["verdict"],
            "timed": row["metric"].replace("_", " "),
            "at": row["at"],
            **({"against": row["against"]} if elsewhere else {}),
            **({"machine": row["machine"]} if apart else {}),
            "seconds": number(row["seconds"]),
            "tokens/s": count(row["tokens_per_second"]),
            "time against control": times(row["ratio"], row["low"], row["high"]),
            "noise floor": ""
            if math.isnan(row["floor"])
            else f"± {100 * (row['floor'] - 1):.2g} %",
            "processes": str(row["n"]),
            "peak memory": memory(row["peak_memory"], row["control_peak_memory"]),
        }
        for row in speeds.to_dict("records")
    ]
    return pd.DataFrame(lines)


def curve_views(evidence: Evidence, ablation: str | None = None) -> dict[str, pd.DataFrame]:
    """Each timed curve to read: a variant a row, a length a column, and how it grows."""
    frame = curves(evidence)
    frame = frame[frame["log_seconds"].map(len).gt(0) | frame["reason"].ne("")]
    frame = frame[frame["metric"].isin(set(evidence.speeds["metric"]))]
    if ablation is not None:
        frame = frame[frame["ablation"] == ablation]
    grows, crosses = (_by(CURVE, of(frame)) for of in (exponents, crossings))
    found = {}
    for place, panel in frame.groupby(CURVE[:-1], sort=False):
        name, across, metric, series = place
        lines = []
        for variant, points in panel.groupby("label", sort=False):
            line = {"variant": short(str(variant))}
            cells = {row["x"]: _curve_cell(row) for row in points.to_dict("records")[::-1]}
            for x in sorted(set(panel["x"])):
                line[f"{panel['along'].iloc[0]} {x:g}"] = cells.get(x, "")
            grown = grows.get((*place, variant))
            ends = ("exponent", "low", "high")
            line["exponent"] = with_interval(*(grown[end] for end in ends)) if grown else ""
            line["changes places at"] = _crossing_cell(crosses.get((*place, variant)))
            lines.append(line)
        label = evidence.loaded.ablations[name]["metrics"].get(metric, {}).get("label") or metric
        title = ", ".join(part for part in (name, across, series) if part)
        found[f"{title}: {label}"] = pd.DataFrame(lines).fillna("")
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


# --- cells


def with_interval(mean: float, low: float, high: float) -> str:
    """`0.450 (0.434 to 0.467)`."""
    if math.isnan(mean):
        return ""
    ends = f" ({bounds(low, high)})" if not math.isnan(low) else ""
    return number(mean, (high - low) / 2) + ends


def times(ratio: float, low: float, high: float) -> str:
    """`1.12 × (1.10 to 1.14)`."""
    first, *ends = with_interval(ratio, low, high).split(" ", 1)
    return " ".join([first, "×", *ends]) if first else ""


def memory(own: float, control: float = math.nan) -> str:
    """`7 MiB (3.50 ×)`, beside the control's."""
    if math.isnan(own):
        return ""
    against = f" ({own / control:.2f} ×)" if control > 0 else ""
    return f"{own / 2**20:.3g} MiB{against}"
