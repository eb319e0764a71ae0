"""Published numbers beside ours, each relative to its own baseline.

perplexity: exp(loss − the baseline's loss), seed by seed
gain:       (trivial − score) / (trivial − the baseline's score)
past:       perplexity at a length over that at the trained length
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import yaml

from ablations.store.identity import value_at
from analysis.contrasts import Evidence
from analysis.load import Loaded, Row, Variant, scores
from analysis.plots import canvas, lines, style
from analysis.plots.canvas import Panel
from analysis.plots.coordinates import points

NUMBERS = Path(__file__).parents[1] / "published.yaml"
SHOWN = {
    "perplexity": "perplexity over that of its own baseline",
    "gain": "share of what the baseline has gained over knowing nothing",
    "past": "perplexity over that at the trained length",
}


def panels(evidence: Evidence) -> list[Panel]:
    """A panel for each topic and each experiment about it."""
    topics = yaml.safe_load(NUMBERS.read_text(encoding="utf-8")).values()
    return [
        panel
        for topic in topics
        for name, entry in evidence.loaded.experiments.items()
        if entry["name"] in topic["experiments"] and (panel := _panel(evidence, name, topic))
    ]


def _panel(evidence: Evidence, name: str, topic: Row) -> Panel | None:
    ours = OURS[topic["shows"]](evidence, name, topic)
    if len({row["x"] for row in ours}) < 2:
        return None
    frame = pd.DataFrame([*ours, *_theirs(topic)])
    is_ours = frame.index < len(ours)
    side = pd.Series(np.where(is_ours, "here", "published"), index=frame.index)
    is_past = topic["shows"] == "past"
    known = canvas.looks_of(evidence) if is_past else {}
    elsewhere = {**style.BASELINE, "marker": "s"}
    drawn = canvas.with_looks(frame, [known.get(label, elsewhere) for label in frame["variant"]])
    drawn = drawn.assign(
        name=frame["variant"] + ", " + side if is_past else side,
        hollow=~is_ours, experiment=name, lost=[[]] * len(frame),
        tick=frame["tick"].str.replace(" ", "\n"),
    )  # fmt: skip
    drawn.attrs |= {"level": 1.0, "x_log": bool(frame["x"].min() > 0), "y_log": is_past}
    drawn.attrs |= {"joined": topic["shows"] != "gain", "x_label": topic.get("x_label", "")}
    measured = drawn[is_ours & (drawn["n"] > 1)]  # the ratio of a baseline to itself is 1
    return Panel(
        kind="published", experiment=name, frame=drawn, plot=lines.plot,
        title=canvas.heading(name, topic["title"]), subtitle=SHOWN[topic["shows"]],
        note=f"{canvas.counted(measured)}; published: {topic['source']}".strip("; "),
        size=(style.WIDTH, 2.75),
    )  # fmt: skip


def _row(label: str, x: float, tick: str, seeds: list[float]) -> Row:
    """A point with the interval over its seeds."""
    return {"variant": label, "x": x, "tick": tick, "points": seeds, **canvas.mean_of(seeds)}


def _theirs(topic: Row) -> list[Row]:
    values, baseline = topic["values"], topic["baseline"]
    if topic["shows"] == "past":
        return [
            _row(label, at / baseline, f"{at / baseline:.3g}", [value / own[baseline]])
            for label, own in values.items()
            for at, value in own.items()
        ]
    own = {each: [value / values[baseline]] for each, value in values.items()}
    if topic["shows"] == "gain":
        return [_row(k, float(i), topic["names"][k], v) for i, (k, v) in enumerate(own.items())]
    return [_row("", float(at), f"{at:g}", value) for at, value in own.items()]


def _by_setting(evidence: Evidence, name: str, topic: Row) -> list[Row]:
    """Perplexity ratios of our variants by the number they set; of equal ones the first counts."""
    loaded = evidence.loaded
    entry, found = loaded.experiments[name], dict[float, Row]()
    split = entry["metric"]["split"]
    base = scores(loaded, (name, entry["baseline"], ""), "loss", split, {})
    for variant in [key for key in loaded.ids if key[0] == name and not key[2]]:
        own = scores(loaded, variant, "loss", split, {})
        ratios = [math.exp(value - base[seed]) for seed, value in own.items() if seed in base]
        at = _setting(loaded, variant, topic["setting"])
        if at is not None and ratios:
            found.setdefault(float(at), _row(variant[1], float(at), f"{at:g}", ratios))
    return [found[at] for at in sorted(found)]


def _setting(loaded: Loaded, variant: Variant, paths: list[str]) -> float | None:
    """The number that a variant sets; a setting may have an earlier name."""
    held = [loaded.records[t] for t in loaded.ids[variant].values() if t in loaded.records]
    values = [value_at(record.config, path) for record in held[:1] for path in paths]
    return next((value for value in values if isinstance(value, int | float)), None)


def _by_label(evidence: Evidence, name: str, topic: Row) -> list[Row]:
    """The gain of our variants by name; a seed that is stuck or diverged gains nothing."""
    loaded, metric = evidence.loaded, evidence.loaded.experiments[name]["metric"]

    def reached(label: str, kind: str = "") -> list[float]:
        variant = name, label, ""
        held = scores(loaded, variant, f"{kind}{metric['name']}", metric["split"], {})
        return list(held.values())

    best, trivial = (reached(topic["baseline"], kind) for kind in ("", "trivial_"))
    if not best or not trivial:
        return []
    nothing, whole = np.mean(trivial), np.mean(trivial) - np.mean(best)
    rows = []
    for i, label in enumerate(topic["values"]):
        ended = [*loaded.outcomes.get((name, label, ""), {}).values()]
        kept = [float((nothing - value) / whole) for value in reached(label)]
        kept += [0.0] * (ended.count("stuck") + ended.count("diverged"))
        rows += [_row(label, float(i), topic["names"][label], kept)] if kept else []
    return rows


def _by_length(evidence: Evidence, name: str, topic: Row) -> list[Row]:
    """Ratios past the trained length of the variants in the paper; at that length they are 1."""
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
