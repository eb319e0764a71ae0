"""What is drawn as lines: learning curves, readings, scores and times along a coordinate."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from ablations.store.record import TRAINED
from ablations.store.schema import FAILED
from analysis import places, stats
from analysis.contrasts import Evidence
from analysis.curves import crossings, curves
from analysis.load import UNREADABLE, WAITING, Loaded, crossing, listed
from analysis.names import after_heading
from analysis.plots import canvas, lines, style
from analysis.plots.canvas import Panel
from analysis.scores import FINE, final_readings

LEARNING_CAPTION = (
    "Loss on validation data by training step, unsmoothed. Line: mean over the seeds that ended "
    "well; band: 95 % interval, from three of them on; thin: single seeds; ×: where a seed that "
    "failed ended. Of a crossed question its last place."
)
READ = {
    "depth": "depth, in blocks",
    "d_head": "width of a head",
    "source": "source tokens, at most",
    "past": "length, in trained lengths",
    "removed": "share of heads removed",
}
"""Coordinates at which a model is read off, and what their axis is called."""
TIMED = {
    "layer_time": "time of one layer",
    "step_time": "time of one step",
    "generation_time": "time of a text",
    "latency": "time of the next token",
    "saved_bytes": "bytes kept for the backward pass",
    "peak_memory": "peak bytes of a step",
}
SHARES = {
    "flops_share": "share of the FLOPs, by part",
    "time_share": "share of the time of a forward pass, by part",
    "preset_flops_share": "share of the FLOPs that mixing takes, by model",
}
MULTIPLIED = 3  # times the smallest level: from there on levels are multiplied, not added
ARM = ["ablation", "label", "across"]
CURVE = ["ablation", "across", "metric", "series"]
Rows = list[dict[str, Any]]


def learning(evidence: Evidence) -> list[Panel]:
    """Validation loss of every question that was trained; of a crossed one at its last place."""
    points = _validation(evidence)
    drawn = points[points["value"].notna()].drop_duplicates(["ablation", "across"])
    found = []
    for name, across in drawn.groupby("ablation", sort=False)["across"].last().items():
        own = points[(points["ablation"] == name) & (points["across"] == across)]
        told = own.assign(name=own["label"])
        means = [row for _, arm in told.groupby("label", sort=False) for row in _means(arm)]
        frame = pd.concat([pd.DataFrame(means), told]) if means else told
        frame = canvas.dressed(frame.reset_index(drop=True), evidence)
        late = frame[frame["x"] > 0]["value"]
        tall = lines.inches(frame["name"].nunique())
        frame.attrs |= {"y_log": lines.is_wide(late), "inches": tall}
        unit = next((unit for unit in own["unit"] if unit), "")
        lost = own[own["is_lost"]].drop_duplicates(["label", "seed"])
        counted = canvas.counted(frame[frame["seed"].isna()])
        failed = [f"{label}: {n} failed" for label, n in lost["label"].value_counts().items()]
        found.append(
            Panel(
                kind="learning", ablation=str(name), frame=frame, plot=lines.plot_learning,
                title=canvas.heading(name, across, "learning curves"),
                subtitle=f"loss on validation data{after_heading(unit)}; low is good",
                note="; ".join([counted.replace("bars", "band"), *failed]).strip("; "),
                size=(style.WIDTH, 1.05 + tall),
            )
        )  # fmt: skip
    return found


def _validation(evidence: Evidence) -> pd.DataFrame:
    """The loss at each evaluation; a seed that broke down before the first has none."""
    frame = evidence.loaded.readings
    told = frame[(frame["metric"] == "loss") & (frame["split"] == "valid") & frame["step"].notna()]
    keys = [*ARM, "seed"]
    rows = told[[*keys, "status", "unit"]].assign(
        x=told["step"].astype(float), value=told["value"].astype(float)
    )
    cells = evidence.loaded.cells
    broken = cells[cells["outcome"].isin(FAILED)][[*keys, "outcome"]]
    broken = broken.rename(columns={"outcome": "status"})
    seen = set(map(tuple, rows[keys].to_numpy()))
    unseen = broken[[tuple(row) not in seen for row in broken[keys].to_numpy()]]
    whole = pd.concat([rows, unseen.assign(unit="", x=0.0, value=math.nan)], ignore_index=True)
    return whole.assign(is_lost=whole["status"] != FINE, low=math.nan, high=math.nan, n=1)


def _means(arm: pd.DataFrame) -> Rows:
    """Of one variant, at each step that every seed that ended well has reached."""
    fine = arm[~arm["is_lost"] & arm["value"].notna()]
    seeds, found = fine["seed"].nunique(), []
    for _, here in fine.groupby("x"):
        if len(here) == seeds:
            told = {**here.iloc[0].to_dict(), "seed": None, **mean_of(here["value"])}
            found.append(told)
    return found


def mean_of(values: Iterable[float]) -> dict[str, Any]:
    """Mean, interval and count of some seeds."""
    mean = stats.mean_of(list(values))
    low, high = mean.ends() if mean.n >= canvas.LEAST else (math.nan, math.nan)
    return {"value": mean.value, "low": low, "high": high, "n": mean.n}


def panels(evidence: Evidence) -> list[Panel]:
    """Everything that has a value at several places of a coordinate."""
    return [panel for of in (_read, _crossed, _walked, _shares) for panel in of(evidence)]


def _panel(
    frame: pd.DataFrame, evidence: Evidence, title: str, subtitle: str, x_label: str, of: str,
    **attrs: Any,
) -> Panel:  # fmt: skip
    """A panel of lines, drawn as high as their names need."""
    drawn = canvas.dressed(frame.reset_index(drop=True), evidence)
    for column in ("points", "lost"):
        if column not in drawn:
            drawn[column] = [[] for _ in range(len(drawn))]
    tall = lines.inches(drawn["name"].nunique())
    drawn.attrs |= {"x_label": x_label, "inches": tall, "y_log": lines.is_wide(drawn["value"])}
    drawn.attrs |= attrs
    reasons = []
    if "reason" in drawn:
        silent = drawn[drawn["value"].isna() & (drawn["reason"] != "")]
        reasons = [f"×: {canvas.cut(each, 70)}" for each in dict.fromkeys(silent["reason"])]
    note = "; ".join(part for part in (canvas.counted(drawn, of), *reasons[:1]) if part)
    return Panel(
        kind="lines", ablation=str(drawn["ablation"].iloc[0]), frame=drawn, plot=lines.plot,
        title=title, subtitle=subtitle, note=note, size=(style.WIDTH, 1.2 + tall),
    )  # fmt: skip


def _split(frame: pd.DataFrame, keys: Sequence[str]) -> list[pd.DataFrame]:
    """A frame for each group in which something was found at several places."""
    groups = [own.copy() for _, own in frame.groupby(list(keys), sort=False)]
    return [own for own in groups if own[own["value"].notna()]["x"].nunique() > 1]


def _read(evidence: Evidence) -> list[Panel]:
    """Along depth, width of a head, source, length past the trained one, and heads removed."""
    frame = places.points(evidence, list(READ))
    frame = frame[(frame["along"] != "past") | frame["metric"].str.endswith("_ratio")]
    is_removed = frame["along"] == "removed"
    way = frame["series"].str.removeprefix("by: ")
    frame = frame.rename(columns={"seeds": "points"}).assign(
        name=frame["label"].where(~is_removed, frame["label"] + ", " + way),
        hollow=is_removed & (way == "random"),
        series=frame["series"].mask(is_removed, ""),
    )
    found = []
    for own in _split(frame, places.PANEL):
        first = own.iloc[0]
        is_past = first["along"] == "past"
        found.append(
            _panel(
                own, evidence, canvas.heading(first["ablation"], first["across"], first["heading"]),
                ", ".join(p for p in (first["heading"] + after_heading(first["unit"]),
                                      first["series"]) if p),
                READ[first["along"]], "seeds", unit=first["unit"],
                x_log=first["along"] != "removed", upright=1.0 if is_past else None,
                level=1.0 if str(first["metric"]).endswith("_ratio") else None,
            )
        )  # fmt: skip
    return found


def _crossed(evidence: Evidence) -> list[Panel]:
    """The score by each factor that a question is crossed with."""
    found = []
    for name, entry in evidence.loaded.ablations.items():
        rows = _by_factor(evidence.loaded, name, entry)
        columns = ["factor", "rest", "label", "x"]
        for own in _split(pd.DataFrame(rows), columns[:2]) if rows else []:
            first, metric = own.iloc[0], entry["metric"]
            points = [_of_seeds(each) for _, each in own.groupby(columns[2:], sort=False)]
            far = own["x"].min() > 0 and own["x"].max() > MULTIPLIED * own["x"].min()
            chance = own["chance"].dropna()
            found.append(
                _panel(
                    pd.DataFrame(points), evidence,
                    canvas.heading(name, first["rest"], f"{metric['label']} by {first['factor']}"),
                    metric["label"] + after_heading(metric["unit"]),
                    str(first["factor"]), "seeds", unit=metric["unit"], y_log=False, x_log=far,
                    floor=(float(chance.iloc[0]), "without looking") if len(chance) else None,
                )
            )  # fmt: skip
    return found


def _by_factor(loaded: Loaded, name: str, entry: dict[str, Any]) -> Rows:
    """Every trial of a crossed question that has ended, once for each of its factors."""
    known = {crossing(cell["across"]): cell["across"] for cell in entry["cells"]}
    ended, metric = scored(loaded, name), entry["metric"]
    trivial = final_readings(loaded, name, f"trivial_{metric['name']}", metric["split"], {})
    chance = {row["across"]: float(row["value"]) for row in listed(trivial)}
    rows = []
    for factor in dict.fromkeys(factor for across in known.values() for factor in across):
        levels = list(dict.fromkeys(a[factor] for a in known.values() if factor in a))
        at = _numbers(levels)
        for row in ended:
            across = known[row["across"]]
            if factor in across:
                level = across[factor]
                rest = crossing({k: v for k, v in across.items() if k != factor})
                x = at.get(level, float(levels.index(level)))
                tick = canvas.number(x) if at else canvas.cut(level, 12)
                place = {"factor": factor, "rest": rest, "x": x, "tick": tick}
                rows.append({**row, **place, "chance": chance.get(row["across"], math.nan)})
    return rows


def _numbers(levels: Sequence[str]) -> dict[str, float]:
    """What number each level is; empty where one is none."""
    try:
        found = {level: float(level) for level in levels}
    except ValueError:
        return {}
    return found if all(map(math.isfinite, found.values())) else {}


def scored(loaded: Loaded, name: str) -> Rows:
    """Each trial of a table that has ended: its last score, and whether it ended well."""
    metric = loaded.ablations[name]["metric"]
    final = final_readings(loaded, name, metric["name"], metric["split"], {}, ended=TRAINED)
    read = {(r["label"], r["across"], r["seed"]): float(r["value"]) for r in listed(final)}
    has_ended = ~loaded.cells["outcome"].isin((WAITING, UNREADABLE))
    cells = loaded.cells[(loaded.cells["ablation"] == name) & has_ended]
    return [
        {
            **{key: row[key] for key in (*ARM, "seed", "trial")},
            "name": row["label"],
            "is_lost": row["outcome"] != FINE,
            "value": read.get((row["label"], row["across"], row["seed"]), math.nan),
        }
        for row in listed(cells)
    ]


def _of_seeds(own: pd.DataFrame) -> dict[str, Any]:
    """One place of a line: the mean over the seeds that ended well, each of them, and the lost."""
    fine = own[~own["is_lost"] & own["value"].notna()]["value"].tolist()
    lost = [math.inf if v != v else v for v in own[own["is_lost"]]["value"]]
    mean = mean_of(fine) if fine else dict.fromkeys(("value", "low", "high"), math.nan) | {"n": 0}
    return {**own.iloc[0].to_dict(), **mean, "points": fine, "lost": lost}


def _walked(evidence: Evidence) -> list[Panel]:
    """Times and bytes by length or position, and of what is counted what a question is about; of
    times also where a line and the baseline change places."""
    frame, known = curves(evidence), evidence.loaded.ablations
    asked = frame["metric"] == frame["ablation"].map(lambda name: known[name]["metric"]["name"])
    shown = frame[(frame["metric"].isin(TIMED) | asked) & ~(frame["value"] <= 0)]
    where = crossings(frame[frame["logs"].map(len) > 0])
    where = where[[*CURVE, "label", "changes", "low", "high"]]
    where = where.rename(columns={end: f"cross_{end}" for end in ("low", "high")})
    found = []
    for own in _split(shown.merge(where, on=[*CURVE, "label"], how="left"), CURVE):
        first, logs = own.iloc[0], own["log_seconds"]
        told = known[first["ablation"]]["metrics"].get(first["metric"], {})
        unit = told.get("unit") or ("s" if logs.map(len).any() else "")
        points = [[math.exp(log) for log in each] for each in logs]
        panel = _panel(
            own.assign(name=own["label"], n=logs.map(len), points=points), evidence,
            canvas.heading(first["ablation"], TIMED.get(first["metric"]) or told["label"]),
            ", ".join(part for part in (first["across"], first["series"]) if part),
            str(first["along"]), "processes", x_log=True, y_log=True, unit=unit,
        )  # fmt: skip
        crossed = [
            f"{canvas.cut(row['label'], 24)} crosses the baseline at "
            + "–".join(f"{row[f'cross_{end}']:,.0f}" for end in ("low", "high"))
            for row in listed(own[own["changes"] == 1].drop_duplicates("label"))
        ]
        found.append(replace(panel, note="; ".join(filter(None, (panel.note, *crossed)))))
    return found


def _shares(evidence: Evidence) -> list[Panel]:
    """Shares of the work or the time by the length: of a variant a line for each of its parts, of
    published models a line for what mixing takes of each."""
    frame, rows = evidence.loaded.readings, []
    for row in listed(frame[frame["metric"].isin(SHARES)]):
        part, preset = row["at"].get("part"), row["at"].get("preset")
        each = row["values"] if isinstance(row["values"], list) else [row["value"]]
        if "tokens_over_width" in row["at"] and (preset is None or part == "mixing"):
            told = {name: row[name] for name in (*ARM, "metric")}
            told |= {"name": preset or part, "x": row["at"]["tokens_over_width"], "n": 1}
            value = sum(each) / len(each) if None not in each else math.nan
            rows.append({**told, "value": value, "low": math.nan, "high": math.nan})
    found = []
    for own in _split(pd.DataFrame(rows), [*ARM, "metric"]) if rows else []:
        first = own.iloc[0]
        known = style.looks(list(dict.fromkeys(own["name"])), [set(own["name"])])
        panel = _panel(
            own, evidence, canvas.heading(first["ablation"], first["across"], first["label"]),
            SHARES[first["metric"]], "tokens, in widths of the model", "seeds", x_log=True,
            y_log=False,
        )  # fmt: skip
        for key in ("colour", "marker", "dash"):
            panel.frame[key] = [getattr(known[name], key) for name in own["name"]]
        found.append(replace(panel, note=""))
    return found
