"""What papers report beside what was found here: each over its own baseline, never blended.

perplexity: over the baseline's, exp(loss − its loss), seed by seed
gain:       of what the baseline is better than an answer without looking, the share
past:       perplexity at a length over that at the trained one
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from analysis.contrasts import Evidence, final_scores
from analysis.load import FINE, Loaded, Row, scores
from analysis.plots import canvas, lines, style
from analysis.plots.canvas import Panel
from analysis.plots.coordinates import points

CAPTION = (
    "What was found here (filled) beside what a paper reports (hollow), each over its own "
    "baseline: tasks, sizes and budgets differ, so shapes can be compared and values cannot. "
    "Bars: 95 % intervals over seeds; small dots: seeds; papers give single numbers. The level "
    "line is the baseline."
)
NUMBERS = Path(__file__).parents[1] / "published.yaml"
QUANTITIES = {
    "perplexity": "perplexity over that of its own baseline",
    "gain": "share of what the baseline has gained over knowing nothing",
    "past": "perplexity over that at the trained length",
}


def panels(evidence: Evidence) -> list[Panel]:
    """A panel for each topic and experiment of this folder that is about it."""
    topics = yaml.safe_load(NUMBERS.read_text(encoding="utf-8")).values()
    return [
        panel
        for topic in topics
        for name, entry in evidence.loaded.experiments.items()
        if entry["name"] in topic["experiments"] and (panel := _panel(evidence, name, topic))
    ]


def _panel(evidence: Evidence, name: str, topic: Row) -> Panel | None:
    ours = OURS[topic["quantity"]](evidence, name, topic)
    if len({row["x"] for row in ours}) < 2:
        return None
    frame = pd.DataFrame([*ours, *_theirs(topic)])
    is_ours = frame.index < len(ours)
    side = pd.Series(np.where(is_ours, "here", "published"), index=frame.index)
    is_past = topic["quantity"] == "past"
    known = canvas.looks_of(evidence) if is_past else {}
    elsewhere = style.Look(style.INK, "s", ())
    drawn = canvas.with_looks(frame, [known.get(label, elsewhere) for label in frame["variant"]])
    drawn = drawn.assign(
        name=frame["variant"] + ", " + side if is_past else side,
        hollow=~is_ours, experiment=name, lost=[[]] * len(frame),
        tick=frame["tick"].str.replace(" ", "\n"),
    )  # fmt: skip
    drawn.attrs |= {"level": 1.0, "x_log": bool(frame["x"].min() > 0), "y_log": is_past}
    drawn.attrs |= {"joined": topic["quantity"] != "gain", "x_label": topic.get("x_label", "")}
    measured = drawn[is_ours & (drawn["n"] > 1)]  # at its own baseline a ratio is 1 by definition
    return Panel(
        kind="published", experiment=name, frame=drawn, plot=lines.plot,
        title=canvas.heading(name, topic["title"]), subtitle=QUANTITIES[topic["quantity"]],
        note=f"{canvas.counted(measured)}; published: {topic['source']}".strip("; "),
        size=(style.WIDTH, 2.75),
    )  # fmt: skip


def _row(label: str, x: float, tick: str, seeds: list[float]) -> Row:
    """A point with the interval over its seeds, where there are enough of them."""
    return {"variant": label, "x": x, "tick": tick, "points": seeds, **canvas.mean_of(seeds)}


def _theirs(topic: Row) -> list[Row]:
    values, baseline = topic["values"], topic["baseline"]
    if topic["quantity"] == "past":
        return [
            _row(label, at / baseline, f"{at / baseline:.3g}", [value / own[baseline]])
            for label, own in values.items()
            for at, value in own.items()
        ]
    if topic["quantity"] == "gain":
        return [
            _row(label, float(i), topic["told"][label], [value / values[baseline]])
            for i, (label, value) in enumerate(values.items())
        ]
    return [_row("", float(at), f"{at:g}", [v / values[baseline]]) for at, v in values.items()]


def _by_setting(evidence: Evidence, name: str, topic: Row) -> list[Row]:
    """Our variants by what they set, and of each exp(loss − the baseline's loss); of two variants
    that set the same, the first in the plan."""
    loaded = evidence.loaded
    entry, cells = loaded.experiments[name], loaded.cells
    final = final_scores(loaded, name, "loss", entry["metric"]["split"])
    final = final[(final["factors"] == "") & (final["status"] == FINE)]
    losses = {
        str(label): dict(zip(own["seed"], own["value"].astype(float), strict=True))
        for label, own in final.groupby("variant", sort=False)
    }
    base = losses.get(entry["baseline"], {})
    found: dict[float, Row] = {}
    for label in cells[(cells["experiment"] == name) & (cells["factors"] == "")][
        "variant"
    ].unique():
        at = _setting(loaded, (name, label, ""), topic["setting"])
        ratios = [math.exp(v - base[s]) for s, v in losses.get(label, {}).items() if s in base]
        if at is not None and ratios:
            found.setdefault(float(at), _row(str(label), float(at), f"{at:g}", ratios))
    return [found[at] for at in sorted(found)]


def _setting(loaded: Loaded, variant: tuple[str, str, str], paths: list[str]) -> float | None:
    """The number that a variant sets; a setting may have an earlier name."""
    trials = loaded.trials[variant].values()
    for config in [loaded.records[t].config for t in trials if t in loaded.records][:1]:
        for path in paths:
            value: Any = config
            for key in path.split("."):
                value = value.get(key) if isinstance(value, dict) else None
            if isinstance(value, int | float):
                return value
    return None


def _by_label(evidence: Evidence, name: str, topic: Row) -> list[Row]:
    """Of what the baseline is better than an answer without looking, the share that a variant
    keeps; a seed that is stuck or diverged keeps nothing."""
    loaded = evidence.loaded
    metric = loaded.experiments[name]["metric"]
    split, base = metric["split"], (name, topic["baseline"], "")
    best = scores(loaded, base, metric["name"], split, {})
    trivial = scores(loaded, base, f"trivial_{metric['name']}", split, {})
    if not best or not trivial:
        return []
    nothing = float(np.mean(list(trivial.values())))
    whole = nothing - float(np.mean(list(best.values())))
    rows = []
    for i, label in enumerate(topic["values"]):
        own = scores(loaded, (name, label, ""), metric["name"], split, {})
        ended = [*loaded.outcomes.get((name, label, ""), {}).values()]
        kept = [(nothing - value) / whole for value in own.values()]
        kept += [0.0] * (ended.count("stuck") + ended.count("diverged"))
        if kept:
            rows.append(_row(label, float(i), topic["told"][label], kept))
    return rows


def _by_length(evidence: Evidence, name: str, topic: Row) -> list[Row]:
    """Of the variants that the paper has as well; at the trained length it is 1 by definition."""
    frame = points(evidence, ["past"])
    frame = frame[(frame["experiment"] == name) & (frame["factors"] == "") & frame["value"].notna()]
    frame = frame[frame["metric"] == "perplexity_ratio"].sort_values("x")
    rows = []
    for label in topic["values"]:
        own = frame[frame["variant"] == label].to_dict("records")
        known = [_row(label, row["x"], f"{row['x']:g}", row["points"]) for row in own]
        rows += [_row(label, 1.0, "1", [1.0]), *known] if known else []
    return rows


OURS = {"perplexity": _by_setting, "gain": _by_label, "past": _by_length}
