"""The contrasts and the speeds as tables: full precision in CSV, sensible digits to read."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pandas as pd

from ablations.store.files import write_atomic
from analysis.curves import crossings, curves, exponents, on_curves
from analysis.evidence import Evidence
from analysis.lines import duration
from analysis.load import listed
from analysis.names import asked, cell_name, short
from analysis.projection import projection, view
from analysis.sentences import bounds, count, number
from analysis.sheet import csv
from analysis.speed import SAME
from analysis.units import after_heading


def write(evidence: Evidence) -> list[Path]:
    """Write both tables in both forms to DIR/tables/."""
    folder = evidence.loaded.root / "tables"
    contents = {
        "contrasts.csv": csv(with_speed(evidence)),
        "contrasts.md": _all_markdown(evidence),
        "speed.csv": csv(evidence.speeds),
        "speed.md": _speed_markdown(evidence),
    }
    projected = projection(evidence)
    if projected is not None:
        contents["projected.csv"] = csv(projected.rows)
        contents["projected.md"] = markdown(view(projected))
    for name, text in contents.items():
        write_atomic(folder / name, text)
    return [folder / name for name in contents]


def with_speed(evidence: Evidence) -> pd.DataFrame:
    """The contrasts beside their step-time ratio, where the variant was timed at one point."""
    frame = evidence.contrasts.copy()
    timed: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    is_step = (evidence.speeds["verdict"] != SAME) & (evidence.speeds["metric"] == "step_time")
    for row in listed(evidence.speeds[is_step]):
        timed.setdefault((row["ablation"], row["label"], row["across"]), []).append(row)
    found = [timed.get((row["ablation"], row["label"], row["across"]), []) for row in listed(frame)]
    ratios = [rows[0] if len(rows) == 1 else {} for rows in found]
    for name in ("ratio", "low", "high", "verdict"):
        empty: Any = "" if name == "verdict" else math.nan
        frame[f"step_time_{name}"] = [ratio.get(name, empty) for ratio in ratios]
    return frame


def contrasts_views(evidence: Evidence) -> dict[str, pd.DataFrame]:
    """Each ablation's table to read, by name."""
    frame = with_speed(evidence)
    return {
        name: _contrasts_view(listed(frame[frame["ablation"] == name]))
        for name in evidence.loaded.ablations
    }


def _contrasts_view(mine: list[dict[str, Any]]) -> pd.DataFrame:
    """The control first, then each variant with its difference."""
    lines: list[dict[str, str]] = []
    seen: set[str] = set()
    for row in mine:
        score = f"{row['metric_label']}{after_heading(row['unit'])}"
        if row["across"] not in seen:
            seen.add(row["across"])
            lines.append(_control_line(row, score))
        lines.append(
            {
                "variant": short(row["name"]),
                "parameters": count(row["parameters"]),
                "FLOPs/token": count(row["flops_per_token"]),
                score: _with_interval(row["mean"], row["mean_low"], row["mean_high"]),
                "difference (95 % interval)": _with_interval(
                    row["difference"], row["low"], row["high"]
                ),
                "p (Holm)": p_value(row["p_holm"]),
                "n": f"{row['n']} of {row['planned']}",
                "failures": row["failures"],
                "could show": number(row["detectable"], row["detectable"]),
                "step time": times(
                    row["step_time_ratio"], row["step_time_low"], row["step_time_high"]
                ),
                "verdict": "; ".join(text for text in (row["verdict"], row["note"]) if text),
            }
        )
    # The last line is a variant's, and only variants have every column.
    return pd.DataFrame(lines, columns=list(lines[-1]) if lines else None).fillna("")


def curve_views(evidence: Evidence) -> dict[str, pd.DataFrame]:
    """Each timed curve to read: a variant a row, a length a column, and how it grows."""
    frame = curves(evidence)
    frame = frame[frame["log_seconds"].map(len).gt(0) | frame["reason"].ne("")]
    frame = frame[frame["metric"].isin(set(evidence.speeds["metric"]))]
    grows, crosses = exponents(frame), crossings(frame)
    keys = ["ablation", "across", "metric", "series"]
    found = {}
    for place, panel in frame.groupby(keys, sort=False):
        title = ", ".join(part for part in (place[0], place[1], place[3]) if part)
        label = evidence.loaded.ablations[place[0]]["metrics"].get(place[2], {}).get("label")
        lines_ = []
        for variant, points in panel.groupby("label", sort=False):
            line = {"variant": short(str(variant))}
            for x in sorted(set(panel["x"])):
                own = points[points["x"] == x]
                line[f"{panel['along'].iloc[0]} {x:g}"] = _curve_cell(listed(own))
            mine = (*place[:2], variant, *place[2:])
            line["exponent"] = _at(grows, mine, "exponent", "low", "high")
            line["changes places at"] = _crossing_cell(crosses, mine)
            lines_.append(line)
        found[f"{title}: {label or place[2]}"] = pd.DataFrame(lines_).fillna("")
    return found


def _curve_cell(rows: list[dict[str, Any]]) -> str:
    """`1.2 ms (0.54 ×)`, or why there is no time."""
    if not rows:
        return ""
    row = rows[0]
    if math.isnan(row["value"]):
        return str(row["reason"]).partition(":")[0]
    ratio = "" if math.isnan(row["ratio"]) else f" ({row['ratio']:.2f} ×)"
    return f"{duration(row['value'])}{ratio}"


def _found(frame: pd.DataFrame, place: tuple[Any, ...]) -> dict[str, Any] | None:
    keys = ["ablation", "across", "label", "metric", "series"]
    for row in listed(frame):
        if tuple(row[key] for key in keys) == place:
            return row
    return None


def _at(frame: pd.DataFrame, place: tuple[Any, ...], *names: str) -> str:
    row = _found(frame, place)
    return "" if row is None else _with_interval(*(row[name] for name in names))


def _crossing_cell(frame: pd.DataFrame, place: tuple[Any, ...]) -> str:
    """Between which lengths, where that is shown; an end that no length closes stays open."""
    row = _found(frame, place)
    if row is None:
        return ""
    if not row["changes"]:
        return "not shown"
    ends = ["…" if math.isinf(e) or e == 0 else f"{e:.0f}" for e in (row["low"], row["high"])]
    return " to ".join(ends)


def speed_view(speeds: pd.DataFrame) -> pd.DataFrame:
    """Every timed point to read; several machines get a column that keeps them apart."""
    apart = speeds["machine"].nunique() > 1
    lines = [
        {
            "ablation": row["ablation"],
            "variant": short(row["name"]),
            "at": row["at"],
            **({"machine": row["machine"]} if apart else {}),
            "seconds a step": number(row["seconds"]),
            "time against control": times(row["ratio"], row["low"], row["high"]),
            "noise floor": ""
            if math.isnan(row["floor"])
            else f"± {100 * (row['floor'] - 1):.2g} %",
            "processes": str(row["n"]),
            "peak memory": _memory(row["peak_memory"], row["control_peak_memory"]),
            "verdict": row["reason"] or row["verdict"],
        }
        for row in listed(speeds)
    ]
    return pd.DataFrame(lines)


def markdown(view: pd.DataFrame) -> str:
    """A Markdown table in which a label is a label, whatever it holds."""
    if view.empty:
        return "Nothing yet.\n"
    rows = [list(view.columns), ["---"] * len(view.columns), *view.to_numpy().tolist()]
    head, rule, *body = rows
    return "".join(
        f"| {' | '.join(cells)} |\n"
        for cells in ([escape(name) for name in head], rule, *([*map(escape, row)] for row in body))
    )


def escape(text: str) -> str:
    """Text as a Markdown cell: no pipe ends it, no tag starts in it, no line breaks it."""
    text = " ".join(str(text).split()).replace("\\", "\\\\").replace("|", "\\|")
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("`", "\\`")


def p_value(p: float) -> str:
    """Two digits, and no more zeros than a t-test on few seeds deserves."""
    if math.isnan(p):
        return ""
    return "< 0.0001" if p < 1e-4 else f"{p:.2g}"


def times(ratio: float, low: float, high: float) -> str:
    """`1.12 × (1.10 to 1.14)`."""
    if math.isnan(ratio):
        return ""
    half = (high - low) / 2
    ends = f" ({bounds(low, high)})" if not math.isnan(low) else ""
    return f"{number(ratio, half)} ×{ends}"


def _control_line(row: dict[str, Any], score: str) -> dict[str, str]:
    name = cell_name(row["control"], row["across"])
    return {
        "variant": f"{short(name)} (control)",
        "parameters": count(row["control_parameters"]),
        "FLOPs/token": count(row["control_flops_per_token"]),
        score: _with_interval(row["control_mean"], row["control_low"], row["control_high"]),
        "n": str(row["control_n"]),
        "failures": row["control_failures"],
    }


def _with_interval(mean: float, low: float, high: float) -> str:
    if math.isnan(mean):
        return ""
    half = (high - low) / 2
    return number(mean, half) + (f" ({bounds(low, high)})" if not math.isnan(low) else "")


def _memory(own: float, control: float) -> str:
    if math.isnan(own):
        return ""
    against = f" ({own / control:.2f} ×)" if control > 0 else ""
    return f"{own / 2**20:.3g} MiB{against}"


def singles(evidence: Evidence) -> pd.DataFrame:
    """The timed points that belong to no curve."""
    return evidence.speeds[~on_curves(evidence)]


def _speed_markdown(evidence: Evidence) -> str:
    parts = [markdown(speed_view(singles(evidence)))]
    parts += [f"**{escape(t)}**\n\n{markdown(v)}" for t, v in curve_views(evidence).items()]
    return "\n".join(parts)


def _all_markdown(evidence: Evidence) -> str:
    return "\n".join(
        f"**{escape(name)}**: {escape(asked(evidence.loaded.ablations[name]))}\n\n{markdown(view)}"
        for name, view in contrasts_views(evidence).items()
    )
