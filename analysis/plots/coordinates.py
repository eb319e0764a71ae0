"""Panels of lines: learning curves, and measurements, scores and times along a coordinate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from ablations.store.schema import FAILED
from analysis.contrasts import Evidence, final_scores
from analysis.load import FINE, UNREADABLE, VARIANT, WAITING, Loaded, Row, crossing
from analysis.plots import canvas, lines, style
from analysis.plots.canvas import Panel
from analysis.timing import CURVE, along, crossings, curves
from analysis.wording import after_heading

READ = {
    "depth": "depth, in blocks",
    "d_head": "width of a head",
    "source_length": "source tokens, at most",
    "past": "length, in trained lengths",
    "removed": "share of heads removed",
}
"""Coordinates along which a model is measured → name of the axis."""
TIMED = ("layer_time", "step_time", "generation_time", "latency", "saved_bytes", "peak_memory")
SHARES = ("flops_share", "time_share", "preset_flops_share")
MULTIPLIED = 3  # times the smallest level: from there on levels are multiplied, not added
PANEL = ["experiment", "factors", "metric", "split", "along", "series"]
PLACE = [*PANEL, "variant", "x"]


# --- along training


def learning(evidence: Evidence) -> list[Panel]:
    """Validation loss of every trained experiment; with factors, at their last levels."""
    points = _validation(evidence.loaded)
    drawn = points[points["value"].notna()].drop_duplicates(["experiment", "factors"])
    found = []
    for name, across in drawn.groupby("experiment", sort=False)["factors"].last().items():
        own = points[(points["experiment"] == name) & (points["factors"] == across)]
        own = own.assign(name=own["variant"])
        means = [
            row for _, variant in own.groupby("variant", sort=False) for row in _means(variant)
        ]
        frame = pd.concat([pd.DataFrame(means), own]) if means else own
        frame = canvas.dressed(frame.reset_index(drop=True), evidence)
        frame.attrs["y_log"] = lines.is_wide(frame[frame["x"] > 0]["value"])
        lost = own[own["is_lost"]].drop_duplicates(["variant", "seed"])["variant"].value_counts()
        notes = [canvas.counted(frame[frame["seed"].isna()]).replace("bars", "band")]
        notes += [f"{label}: {n} failed" for label, n in lost.items()]
        unit = next((unit for unit in own["unit"] if unit), "")
        found.append(
            Panel(
                kind="learning", experiment=str(name), frame=frame, plot=lines.plot_learning,
                title=canvas.heading(name, across, "learning curves"),
                subtitle=f"loss on validation data{after_heading(unit)}; low is good",
                note="; ".join(filter(None, notes)),
                size=(style.WIDTH, 1.05 + lines.height(frame["name"].nunique())),
            )
        )  # fmt: skip
    return found


def _validation(loaded: Loaded) -> pd.DataFrame:
    """The loss at each evaluation; a seed that failed before the first has a row without one."""
    frame, keys = loaded.measurements, [*VARIANT, "seed"]
    is_loss = (frame["metric"] == "loss") & (frame["split"] == "valid") & frame["step"].notna()
    rows = frame[is_loss][[*keys, "status", "unit", "step", "value"]].rename(columns={"step": "x"})
    broken = loaded.trials[loaded.trials["outcome"].isin(FAILED)][[*keys, "outcome"]]
    broken = broken.rename(columns={"outcome": "status"}).assign(unit="", x=0.0, value=math.nan)
    seen = pd.MultiIndex.from_frame(rows[keys])
    unseen = broken[~pd.MultiIndex.from_frame(broken[keys]).isin(seen)]
    whole = pd.concat([rows, unseen], ignore_index=True) if len(unseen) else rows
    return whole.assign(is_lost=whole["status"] != FINE, low=math.nan, high=math.nan, n=1)


def _means(variant: pd.DataFrame) -> list[Row]:
    """The means of one variant at the steps that every seed with status ok has reached."""
    fine = variant[~variant["is_lost"] & variant["value"].notna()]
    return [
        {**here.iloc[0].to_dict(), "seed": None, **canvas.mean_of(here["value"])}
        for _, here in fine.groupby("x")
        if len(here) == fine["seed"].nunique()
    ]


# --- along anything else


def panels(evidence: Evidence) -> list[Panel]:
    """Every metric with values at several places along a coordinate."""
    return [panel for of in (_read, _crossed, _walked, _shares) for panel in of(evidence)]


def points(evidence: Evidence, coordinates: Sequence[str]) -> pd.DataFrame:
    """A row for each point of a curve; if one seed has no value there, with a reason, no mean."""
    frame = evidence.loaded.measurements
    single = frame["values"].isna() & frame["samples"].isna() & frame["session"].isna()
    placed = frame[[name for name in coordinates if name in frame]].notna().any(axis=1)
    frame = frame[single & placed & (frame["status"] == FINE)]
    where = [
        along({k: f"{k}: {v}" if isinstance(v, str) else v for k, v in at.items() if k != "step"},
              coordinates) or {}
        for at in frame["coordinates"]
    ]  # fmt: skip
    keys = ["along", "series", "x"]
    seen = frame[[*PANEL[:4], "variant", "unit", "seed", "step", "value", "reason"]].join(
        pd.DataFrame(where, index=frame.index, columns=keys)
    )
    seen = seen[seen["x"].map(lambda x: isinstance(x, int | float) and x == x).astype(bool)]
    seen = seen.sort_values("step", kind="stable").drop_duplicates([*PLACE, "seed"], keep="last")
    rows = []
    for _, own in seen.sort_index().groupby(PLACE, sort=False):
        first, lost = own.iloc[0], own[own["value"].isna()]
        rows.append(
            {
                **first[[*PLACE, "unit"]].to_dict(),
                "heading": evidence.loaded.title(first["experiment"], first["metric"]),
                **canvas.mean_of(own["value"]),
                "points": own["value"].dropna().tolist(),
                "reason": "" if lost.empty else str(lost["reason"].iloc[0]),
            }
        )
    columns = [*PLACE, "unit", "heading", "value", "low", "high", "n", "points", "reason"]
    return pd.DataFrame(rows, columns=columns)


def _panel(
    frame: pd.DataFrame, evidence: Evidence, title: str, subtitle: str, x_label: str,
    of: str = "seeds", **attrs: Any,
) -> Panel:  # fmt: skip
    """A panel of lines, high enough for the names beside it."""
    drawn = canvas.dressed(frame.reset_index(drop=True), evidence)
    for column in {"points", "lost"} - set(drawn):
        drawn[column] = [[] for _ in range(len(drawn))]
    drawn.attrs |= {"x_label": x_label, "y_log": lines.is_wide(drawn["value"]), **attrs}
    silent = drawn[drawn["value"].isna()].get("reason", pd.Series(dtype=str))
    notes = [canvas.counted(drawn, of)]
    notes += [f"×: {canvas.cut(each, 70)}" for each in silent.unique() if each][:1]
    return Panel(
        kind="lines", experiment=str(drawn["experiment"].iloc[0]), frame=drawn, plot=lines.plot,
        title=title, subtitle=subtitle, note="; ".join(filter(None, notes)),
        size=(style.WIDTH, 1.2 + lines.height(drawn["name"].nunique())),
    )  # fmt: skip


def _split(frame: pd.DataFrame, keys: Sequence[str]) -> list[pd.DataFrame]:
    """A frame for each group with values at several places."""
    groups = [own.copy() for _, own in frame.groupby(list(keys), sort=False)]
    return [own for own in groups if own[own["value"].notna()]["x"].nunique() > 1]


def _read(evidence: Evidence) -> list[Panel]:
    """Metrics along depth, head width, source length, length past training, and heads removed."""
    frame = points(evidence, list(READ))
    frame = frame[(frame["along"] != "past") | frame["metric"].str.endswith("_ratio")]
    is_removed, by = frame["along"] == "removed", frame["series"].str.removeprefix("by: ")
    frame = frame.assign(
        name=frame["variant"].where(~is_removed, frame["variant"] + ", " + by),
        hollow=is_removed & (by == "random"),
        series=frame["series"].mask(is_removed, ""),
    )
    found = []
    for own in _split(frame, PANEL):
        first = own.iloc[0]
        subtitle = (first["heading"] + after_heading(first["unit"]), first["series"])
        found.append(
            _panel(
                own, evidence,
                canvas.heading(first["experiment"], first["factors"], first["heading"]),
                ", ".join(part for part in subtitle if part), READ[first["along"]],
                unit=first["unit"], x_log=first["along"] != "removed",
                upright=1.0 if first["along"] == "past" else None,
                level=1.0 if str(first["metric"]).endswith("_ratio") else None,
            )
        )  # fmt: skip
    return found


def _crossed(evidence: Evidence) -> list[Panel]:
    """The score by each factor of an experiment."""
    found = []
    for name, entry in evidence.loaded.experiments.items():
        rows, metric = _by_factor(evidence.loaded, name, entry), entry["metric"]
        for own in _split(rows, ["factor", "rest"]) if len(rows) else []:
            first, chance = own.iloc[0], own["chance"].dropna()
            means = [_of_seeds(each) for _, each in own.groupby(["variant", "x"], sort=False)]
            far = own["x"].min() > 0 and own["x"].max() > MULTIPLIED * own["x"].min()
            found.append(
                _panel(
                    pd.DataFrame(means), evidence,
                    canvas.heading(name, first["rest"], f"{metric['title']} by {first['factor']}"),
                    metric["title"] + after_heading(metric["unit"]), str(first["factor"]),
                    unit=metric["unit"], y_log=False, x_log=far,
                    floor=(float(chance.iloc[0]), "without looking") if len(chance) else None,
                )
            )  # fmt: skip
    return found


def _by_factor(loaded: Loaded, name: str, entry: Row) -> pd.DataFrame:
    """Every ended trial of an experiment with factors, repeated for each factor."""
    known = {crossing(cell["factors"]): cell["factors"] for cell in entry["trials"]}
    trials, keys = loaded.trials, [*VARIANT, "seed"]
    final, trivial = (
        final_scores(loaded, name, f"{kind}{entry['metric']['name']}", entry["metric"]["split"])
        for kind in ("", "trivial_")
    )
    is_ended = (trials["experiment"] == name) & ~trials["outcome"].isin((WAITING, UNREADABLE))
    ended = trials[is_ended][[*keys, "outcome"]].merge(final[[*keys, "value"]], "left", on=keys)
    ended = ended.assign(
        name=ended["variant"],
        is_lost=ended["outcome"] != FINE,
        chance=ended["factors"].map(trivial.groupby("factors")["value"].last()),
    )
    rows = []
    for factor in dict.fromkeys(factor for across in known.values() for factor in across):
        levels = list(dict.fromkeys(a[factor] for a in known.values() if factor in a))
        numbers = pd.to_numeric(pd.Series(levels), errors="coerce")
        are_numbers = bool(np.isfinite(numbers).all())
        for row in ended.to_dict("records"):
            across = known[row["factors"]]
            if factor in across:
                x = float(across[factor] if are_numbers else levels.index(across[factor]))
                tick = canvas.number(x) if are_numbers else canvas.cut(across[factor], 12)
                rest = crossing({k: v for k, v in across.items() if k != factor})
                rows.append({**row, "factor": factor, "rest": rest, "x": x, "tick": tick})
    return pd.DataFrame(rows)


def _of_seeds(own: pd.DataFrame) -> Row:
    """One point of a line: the mean of the seeds with status ok, each of them, and the failed."""
    fine = own[~own["is_lost"] & own["value"].notna()]["value"].tolist()
    lost = own[own["is_lost"]]["value"].fillna(math.inf).tolist()
    return {**own.iloc[0].to_dict(), **canvas.mean_of(fine), "points": fine, "lost": lost}


def _walked(evidence: Evidence) -> list[Panel]:
    """Times, bytes and counts by length or position, and where times cross the baseline's."""
    frame, loaded = curves(evidence), evidence.loaded
    own_metric = {name: entry["metric"]["name"] for name, entry in loaded.experiments.items()}
    is_shown = frame["metric"].isin(TIMED) | (
        frame["metric"] == frame["experiment"].map(own_metric)
    )
    shown, keys = frame[is_shown & ~(frame["value"] <= 0)], [*CURVE, "variant"]
    where = crossings(frame[frame["logs"].map(len) > 0])[[*keys, "changes", "low", "high"]]
    where = where.rename(columns={end: f"cross_{end}" for end in ("low", "high")})
    found = []
    for own in _split(shown.merge(where, on=keys, how="left"), CURVE):
        first, logs = own.iloc[0], own["log_seconds"]
        metric = loaded.experiments[first["experiment"]]["metrics"].get(first["metric"], {})
        unit = metric.get("unit") or ("s" if logs.map(len).any() else "")
        points = [np.exp(each).tolist() for each in logs]
        panel = _panel(
            own.assign(name=own["variant"], n=logs.map(len), points=points), evidence,
            canvas.heading(first["experiment"], loaded.title(first["experiment"], first["metric"])),
            ", ".join(part for part in (first["factors"], first["series"]) if part),
            str(first["along"]), "processes", x_log=True, y_log=True, unit=unit,
        )  # fmt: skip
        crossed = [
            f"{canvas.cut(row['variant'], 24)} crosses the baseline at "
            f"{row['cross_low']:,.0f}–{row['cross_high']:,.0f}"
            for row in own[own["changes"] == 1].drop_duplicates("variant").to_dict("records")
        ]
        found.append(replace(panel, note="; ".join(filter(None, [panel.note, *crossed]))))
    return found


def _shares(evidence: Evidence) -> list[Panel]:
    """Shares of work or time by length: a line for each component, or for each published model."""
    frame, rows = evidence.loaded.measurements, []
    for row in frame[frame["metric"].isin(SHARES)].to_dict("records"):
        part, preset = row["coordinates"].get("part"), row["coordinates"].get("preset")
        each = row["values"] if isinstance(row["values"], list) else [row["value"]]
        if "tokens_over_width" in row["coordinates"] and (preset is None or part == "mixing"):
            own = {key: row[key] for key in (*VARIANT, "metric", "tokens_over_width")}
            mean = sum(each) / len(each) if None not in each else math.nan
            rows.append({**own, "name": preset or part, "value": mean})
    found = []
    whole = pd.DataFrame(rows).rename(columns={"tokens_over_width": "x"})
    whole = whole.assign(n=1, low=math.nan, high=math.nan)
    for own in _split(whole, [*VARIANT, "metric"]) if rows else []:
        first, names = own.iloc[0], list(own["name"].unique())
        by = "model, of mixing" if first["metric"].startswith("preset") else "component"
        panel = _panel(
            own, evidence, canvas.heading(first["experiment"], first["factors"], first["variant"]),
            f"{evidence.loaded.title(first['experiment'], first['metric'])}, by {by}",
            "tokens, in widths of the model", x_log=True, y_log=False,
        )  # fmt: skip
        looks, attrs = style.looks(names, [names]), panel.frame.attrs
        drawn = canvas.with_looks(panel.frame, [looks[name] for name in panel.frame["name"]])
        drawn.attrs |= attrs
        found.append(replace(panel, frame=drawn, note=""))
    return found
