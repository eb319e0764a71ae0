"""What papers report beside what was found here: each over its own control, never blended.

perplexity: over the control's, exp(loss − its loss), seed by seed
gain:       of what the control is better than an answer without looking, the share
past:       perplexity at a length over that at the trained one
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from analysis import places, stats
from analysis.contrasts import Evidence
from analysis.scores import final_readings, scores

NUMBERS = Path(__file__).with_name("published.yaml")
OURS, THEIRS = "ours", "published"
COLUMNS = [
    *("ablation", "topic", "side", "label", "name", "x", "tick", "value", "low", "high", "seeds"),
    *("title", "source", "across", "quantity", "control"),
]
Row = dict[str, Any]


def comparisons(evidence: Evidence) -> list[pd.DataFrame]:
    """A frame for each topic and question of this folder that is about it: our points, then
    theirs."""
    found = []
    for topic, entry in yaml.safe_load(NUMBERS.read_text(encoding="utf-8")).items():
        for name, asked in evidence.loaded.ablations.items():
            if asked["name"] not in entry["questions"]:
                continue
            ours = READERS[entry["quantity"]](evidence, name, entry)
            if len({row["x"] for row in ours}) < 2:
                continue
            frame = pd.DataFrame([*ours, *_theirs(entry)])
            told = {key: entry.get(key, "") for key in ("title", "source", "across", "quantity")}
            told |= {"ablation": name, "topic": topic, "control": str(entry["control"])}
            found.append(frame.assign(**told)[COLUMNS])
    return found


def _row(side: str, label: str, x: float, tick: str, seeds: list[float], **more: Any) -> Row:
    """A point with the interval over its seeds, where there are enough of them."""
    mean = stats.mean_of(seeds)
    low, high = mean.ends() if mean.n >= stats.LEAST else (math.nan, math.nan)
    told = {"value": mean.value, "low": low, "high": high, "seeds": seeds}
    return {"side": side, "label": label, "name": label, "x": x, "tick": tick, **told, **more}


def _theirs(entry: Row) -> list[Row]:
    values = entry["values"]
    if entry["quantity"] == "past":
        trained = entry["control"]
        return [
            _row(THEIRS, label, at / trained, f"{at / trained:.3g}", [value / own[trained]])
            for label, own in values.items()
            for at, value in own.items()
        ]
    base = values[entry["control"]]
    if entry["quantity"] == "gain":
        return [
            _row(THEIRS, label, float(i), entry["told"][label], [value / base])
            for i, (label, value) in enumerate(values.items())
        ]
    return [
        _row(THEIRS, "", float(at), f"{at:g}", [value / base], name=f"{at:g}")
        for at, value in values.items()
    ]


def _by_setting(evidence: Evidence, name: str, entry: Row) -> list[Row]:
    """Our arms by what they set, and of each exp(loss − the control's loss); of two arms that set
    the same, the first in the plan."""
    loaded = evidence.loaded
    control = loaded.ablations[name]["control"]
    losses = _losses(evidence, name)
    cells = loaded.cells[(loaded.cells["ablation"] == name) & (loaded.cells["across"] == "")]
    found: dict[float, Row] = {}
    for label, own in cells.groupby("label", sort=False):
        known = [t for t in own["trial"] if t in loaded.records]
        at = _setting(loaded.records[known[0]].config, entry["setting"]) if known else None
        both = [s for s in losses.get(str(label), {}) if s in losses.get(control, {})]
        if at is None or not both:
            continue
        ratios = [math.exp(losses[str(label)][s] - losses[control][s]) for s in both]
        found.setdefault(float(at), _row(OURS, str(label), float(at), f"{at:g}", ratios))
    return [found[at] for at in sorted(found)]


def _losses(evidence: Evidence, name: str) -> dict[str, dict[Any, float]]:
    """Label → seed → loss in test."""
    split = evidence.loaded.ablations[name]["metric"]["split"]
    final = final_readings(evidence.loaded, name, "loss", split, {})
    final = final[final["across"] == ""]
    return {
        str(label): dict(zip(own["seed"], own["value"].astype(float), strict=True))
        for label, own in final.groupby("label", sort=False)
    }


def _setting(config: dict[str, Any], path: str) -> float | None:
    value: Any = config
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value if isinstance(value, int | float) else None


def _by_arm(evidence: Evidence, name: str, entry: Row) -> list[Row]:
    """Of what the control is better than an answer without looking, the share that an arm keeps;
    a seed that is stuck or diverged keeps nothing."""
    loaded = evidence.loaded
    metric = loaded.ablations[name]["metric"]
    split = metric["split"]
    control = scores(loaded, name, entry["control"], "", metric["name"], split, {})
    trivial = scores(loaded, name, entry["control"], "", f"trivial_{metric['name']}", split, {})
    if not control or not trivial:
        return []
    nothing = float(np.mean(list(trivial.values())))
    whole = nothing - float(np.mean(list(control.values())))
    cells = loaded.cells[(loaded.cells["ablation"] == name) & (loaded.cells["across"] == "")]
    rows = []
    for i, label in enumerate(entry["values"]):
        own = scores(loaded, name, label, "", metric["name"], split, {})
        kept = [(nothing - value) / whole for value in own.values()]
        ended = cells[cells["label"] == label]["outcome"]
        kept += [0.0] * int(ended.isin(("stuck", "diverged")).sum())
        if kept:
            rows.append(_row(OURS, label, float(i), entry["told"][label], kept))
    return rows


def _by_length(evidence: Evidence, name: str, entry: Row) -> list[Row]:
    """Of the arms that the paper has as well; at the trained length it is 1 by definition."""
    frame = places.points(evidence, ["past"])
    own = frame[(frame["ablation"] == name) & (frame["across"] == "")]
    own = own[own["metric"] == "perplexity_ratio"]
    rows = []
    for label in entry["values"]:
        mine = own[(own["label"] == label) & own["value"].notna()].sort_values("x")
        points = zip(mine["x"], mine["seeds"], strict=True)
        known = [_row(OURS, label, float(x), f"{x:g}", list(seeds)) for x, seeds in points]
        rows += [_row(OURS, label, 1.0, "1", [1.0]), *known] if known else []
    return rows


READERS = {"perplexity": _by_setting, "gain": _by_arm, "past": _by_length}
