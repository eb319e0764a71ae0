"""Tables as CSV with full precision, as Markdown, LaTeX and HTML; and all measurements as CSV."""

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
from analysis import wording
from analysis.contrasts import Evidence, variant_of
from analysis.load import Loaded, Row
from analysis.timing import CURVE, crossings, curves, exponents, on_curves
from analysis.wording import with_interval

CAPTION = (
    "In brackets: 95 % t-intervals over seeds. A difference to the baseline is paired by seed. "
    "better or worse (higher or lower where nothing is trained): its interval excludes 0. "
    "tie: its interval lies inside plus or minus what matters on this task. not resolved: neither. "
    "few seeds: fewer than three, so numbers and no mark. failed: seeds broke down, so what is "
    "left would flatter that side."
)
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
    "baseline_trial": "the trial whose times are in baseline_samples",
    "samples": "one time for each block, as JSON",
    "baseline_samples": "the baseline's times in the same blocks, as JSON",
    "baseline_again": "the baseline timed again in the same blocks, as JSON",
    "axes": "of values, from the outermost in: name and places, as JSON",
    "values": "a small array, as JSON",
    "step": "training steps done",
}
"""Column → meaning. A column for each coordinate follows."""


def write(evidence: Evidence) -> list[Path]:
    """Write every table in every format, and all measurements, to DIR/tables/."""
    entries = evidence.loaded.experiments
    compared = {
        f"{name}: {entries[name]['question']}": view
        for name, view in contrasts_views(evidence).items()
    }
    timed = {"Times at single places": speed_view(singles(evidence)), **curve_views(evidence)}
    contents: dict[str, str | bytes] = {
        "contrasts.csv": csv(evidence.contrasts),
        "speed.csv": csv(evidence.speeds),
        MEASUREMENTS: gzip.compress(csv(measurements(evidence.loaded)).encode(), 6, mtime=0),
        "measurements.md": explained(evidence.loaded),
    }
    for name, views, lead in (("contrasts", compared, CAPTION), ("speed", timed, "")):
        for suffix, form in (("md", markdown_file), ("tex", latex_file), ("html", html_file)):
            contents[f"{name}.{suffix}"] = form(views, lead)
    folder = evidence.loaded.root / "tables"
    for name, content in contents.items():
        write_atomic(folder / name, content)
    return [folder / name for name in contents]


# --- forms


def csv(frame: pd.DataFrame) -> str:
    """CSV with exact numbers; lists and dictionaries are written as JSON."""
    texts = [str(name) for name in frame if not is_numeric_dtype(frame[name])]
    flat = frame.assign(**{name: frame[name].astype(object).map(_cell) for name in texts})
    # Quoted, because a carriage return in a name would start a new line.
    return flat.to_csv(index=False, lineterminator="\n", quoting=QUOTE_NONNUMERIC)


def _cell(cell: Any) -> Any:
    return json.dumps(cell) if isinstance(cell, list | dict) else cell


def markdown(view: pd.DataFrame) -> str:
    """A Markdown table; pipes and tags in names do not break it."""
    if view.empty:
        return "Nothing yet.\n"
    return _escaped(view, escape).to_markdown(index=False, disable_numparse=True) + "\n"


def escape(text: str) -> str:
    """Escape text for a cell of a Markdown table."""
    return " ".join(text.split()).translate(_MARKDOWN)


_MARKDOWN = str.maketrans({**{c: f"\\{c}" for c in "\\|`*_["}, "&": "&amp;", "<": "&lt;"})


def tex(text: str) -> str:
    """Escape text for LaTeX."""
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


def markdown_file(views: Mapping[str, pd.DataFrame], lead: str) -> str:
    parts = [f"**{escape(title)}**\n\n{markdown(view)}" for title, view in views.items()]
    return "\n".join([f"{lead}\n"] * bool(lead) + parts)


def latex_file(views: Mapping[str, pd.DataFrame], lead: str) -> str:
    """LaTeX tables with booktabs, for \\input."""
    parts = [r"% \usepackage{booktabs}"]
    for title, view in views.items():
        caption = tex(f"{title}{'' if title.endswith('?') else '.'} {lead}".strip())
        if view.empty:
            parts.append(f"% {caption} Nothing yet.")
            continue
        style = _escaped(view, tex).style.hide(axis="index")
        parts.append(style.to_latex(hrules=True, caption=caption, position_float="centering"))
    return "\n".join(parts) + "\n"


def html_file(views: Mapping[str, pd.DataFrame], lead: str) -> str:
    """HTML fragments: a heading and a table each."""
    parts = [f"<p>{html.escape(lead)}</p>"] * bool(lead)
    for title, view in views.items():
        with pd.option_context("display.max_colwidth", None):
            table = view.to_html(index=False, border=0) if len(view) else "<p>Nothing yet.</p>"
        parts.append(f"<h3>{html.escape(title)}</h3>\n{table}")
    return "\n".join(parts) + "\n"


# --- contrasts


def contrasts_views(evidence: Evidence) -> dict[str, pd.DataFrame]:
    """Experiment → its readable table."""
    return {
        name: contrasts_view(
            *(
                frame[frame["experiment"] == name].to_dict("records")
                for frame in (evidence.variants, evidence.contrasts)
            )
        )
        for name in evidence.loaded.experiments
    }


def contrasts_view(of_each: list[Row], differences: list[Row]) -> pd.DataFrame:
    """At each level of the factors the baseline, then every variant with its difference."""
    compared = {variant_of(row): row for row in differences}
    levels = list(dict.fromkeys(row["factors"] for row in differences))
    rows = [row for row in of_each if row["factors"] in levels]
    rows.sort(key=lambda row: (levels.index(row["factors"]), row["variant"] != row["baseline"]))
    unit = next((row["unit"] for row in differences if row["unit"]), "")
    view = pd.DataFrame([_line(row, compared.get(variant_of(row), {}), unit) for row in rows])
    is_untuned = rows and (view["tuned to"] == "").all()
    return view.drop(columns="tuned to") if is_untuned else view


def _line(row: Row, compared: Row, unit: str) -> dict[str, str]:
    """The cells of one variant; the baseline has no difference."""
    return {
        "variant": f"{wording.short(row['name'])}{'' if compared else ' (baseline)'}",
        "mark": compared.get("mark", ""),
        "parameters": wording.count(row["parameters"]),
        "FLOPs/token": wording.count(row["flops_per_token"]),
        f"{row['metric_title']}{wording.after_heading(unit)}": score(row),
        "difference (95 % interval)": difference(compared),
        "n": f"{compared['n']} of {row['planned']}" if compared else str(row["mean_n"]),
        "failures": row["failures"],
        "tuned to": tuned_to(row["tuned_to"]),
        "note": compared.get("note", ""),
    }


def score(row: Row) -> str:
    return with_interval(row["mean"], row["mean_low"], row["mean_high"])


def difference(row: Row) -> str:
    return with_interval(row["difference"], row["low"], row["high"]) if row else ""


def tuned_to(chosen: Mapping[str, Any]) -> str:
    """`lr=0.01`: only the last word of each path."""
    return ", ".join(f"{path.rpartition('.')[2]}={value}" for path, value in chosen.items())


# --- times


def singles(evidence: Evidence) -> pd.DataFrame:
    """The timed points that belong to no curve."""
    return evidence.speeds[~on_curves(evidence)]


def speed_view(speeds: pd.DataFrame) -> pd.DataFrame:
    """A readable table of timed points, with a column for the machine if there are several."""
    view = pd.DataFrame(
        {
            "experiment": row["experiment"],
            "variant": wording.short(row["name"]),
            "verdict": row["reason"] or row["verdict"],
            "timed": row["metric_title"],
            "where": row["where"],
            "against": row["compared_with"],
            "machine": row["machine"],
            "seconds": wording.number(row["seconds"]),
            "tokens/s": wording.count(row["tokens_per_second"]),
            "time against baseline": wording.times(row["ratio"], row["low"], row["high"]),
            "noise floor": wording.plus_minus(row["floor"] - 1),
            "processes": str(row["n"]),
            "peak memory": wording.memory(row["peak_memory"], row["baseline_peak_memory"]),
        }
        for row in speeds.to_dict("records")
    )
    if view.empty:
        return view
    is_one = {"against": (speeds["compared_with"] == speeds["baseline"]).all()}
    is_one["machine"] = speeds["machine"].nunique() < 2
    return view.drop(columns=[name for name, is_so in is_one.items() if is_so])


def curve_views(evidence: Evidence, experiment: str | None = None) -> dict[str, pd.DataFrame]:
    """A readable table of each timed curve: a row for each variant, a column for each length."""
    frame = curves(evidence)
    frame = frame[frame["log_seconds"].map(len).gt(0) | frame["reason"].ne("")]
    frame = frame[frame["metric"].isin(set(evidence.speeds["metric"]))]
    if experiment is not None:
        frame = frame[frame["experiment"] == experiment]
    keys = [*(key for key in CURVE if key != "along"), "variant"]
    grows, crosses = (of(frame).set_index(keys) for of in (exponents, crossings))
    cells = frame.assign(
        cell=list(map(time_cell, frame["value"], frame["ratio"], frame["reason"])),
        column=frame["along"] + " " + frame["x"].map("{:g}".format),
    )
    found = {}
    for (name, across, metric, series), panel in cells.groupby(keys[:-1], sort=False):
        view = panel.pivot(index="variant", columns="column", values="cell")
        order = panel.sort_values("x")["column"].unique()
        view = view.loc[panel["variant"].unique(), order].fillna("")
        rows = [(name, across, metric, series, label) for label in view.index]
        grown = grows.reindex(rows)[["exponent", "low", "high"]].itertuples(index=False)
        view["exponent"] = [with_interval(*each) for each in grown]
        view["changes places at"] = [
            _crossing_cell(crosses.loc[row].to_dict() if row in crosses.index else None)
            for row in rows
        ]
        title = ", ".join(part for part in (name, across, series) if part)
        view.index = pd.Index([wording.short(str(label)) for label in view.index], name="variant")
        title = f"{title}: {evidence.loaded.title(str(name), str(metric))}"
        found[title] = view.reset_index().rename_axis(columns=None)
    return found


def time_cell(seconds: float, ratio: float, reason: str) -> str:
    """`1.2 ms (0.54 ×)`, or the reason if there is no time."""
    if math.isnan(seconds):
        return reason.partition(":")[0]
    return wording.duration(seconds) + ("" if math.isnan(ratio) else f" ({ratio:.2f} ×)")


def _crossing_cell(row: Row | None) -> str:
    """`300 to 420`: between which lengths it crosses; an open end is three dots."""
    if row is None:
        return ""
    if not row["changes"]:
        return "not shown"
    ends = ["…" if math.isinf(e) or e == 0 else f"{e:.0f}" for e in (row["low"], row["high"])]
    return " to ".join(ends)


# --- measurements


def measurements(loaded: Loaded) -> pd.DataFrame:
    """A row for each measurement that the analysis uses."""
    frame = loaded.measurements
    baselines = {name: entry["baseline"] for name, entry in loaded.experiments.items()}
    tasks = {name: entry["task"] for name, entry in loaded.experiments.items()}
    is_baseline = (frame["variant"] == frame["experiment"].map(baselines)).astype(int)
    added = frame.assign(is_baseline=is_baseline, task=frame["experiment"].map(tasks))
    return added[[*MEANINGS, *_coordinates(loaded)]]


def _coordinates(loaded: Loaded) -> list[str]:
    return sorted(set(loaded.measurements.columns) - set(MEANINGS) - {"coordinates", "where"})


def explained(loaded: Loaded) -> str:
    """A Markdown table of the meaning of each column."""
    frame = loaded.measurements
    meanings = dict(MEANINGS)
    for name in _coordinates(loaded):
        used = wording.first_few(sorted(frame[frame[name].notna()]["source"].unique()), 8)
        meanings[name] = f"coordinate of {used}"
    lead = (
        f"**{MEASUREMENTS}**: a row for each of {len(frame):,} measurements. `pandas.read_csv` "
        "reads it as it is. Measurements that other code has taken than the rest of their "
        "experiment are left out, as are trials that only tuned settings.\n"
    )
    return f"{lead}\n{markdown(pd.DataFrame(meanings.items(), columns=['column', 'meaning']))}"
