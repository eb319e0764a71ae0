"""What the number of heads does to the score and, where it was timed, to the time of a step."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from ablations.store.identity import freeze
from ablations.store.record import TRAINED
from analysis import insets, lines, spread, style
from analysis.curves import with_looks
from analysis.evidence import Evidence
from analysis.load import WAITING, Loaded, listed
from analysis.names import cell_name, short
from analysis.scores import FINE, final_readings
from analysis.sentences import number
from analysis.units import after_heading

CAPTION = (
    "Above: the score by the number of heads at equal width, so that more heads are narrower. "
    "Line: mean over the seeds that ended well; bar: 95 % interval (Student's t) from three on; "
    "dots: single seeds; a cross: a seed that failed. Below, where it was timed: the time of a "
    "training step over the control's, with a 95 % interval over processes."
)
MARGINS = lines.MARGINS
TIMED, BETWEEN = 0.85, 0.34  # inches: of the lower axis, and between the two
SCORE, TIME = "score", "time"
STEP = "step_time"  # metric
Arm = tuple[str, str]  # label and crossing
ARM = ["ablation", "across", "label"]
COLUMNS = [*ARM, "name", "axis", "heading", "seed", "status", "x", "place", "value"]


def panels(evidence: Evidence) -> list[pd.DataFrame]:
    """A panel for each question and crossing most of whose arms differ in their heads alone."""
    scores, times = [], []
    for name in evidence.loaded.ablations:
        heads = _heads(evidence.loaded, name)
        if len(set(heads.values())) > 1:
            scores += _scores(evidence.loaded, name, heads)
            times += _times(evidence, name, heads)
    points = spread.over_seeds(pd.DataFrame(scores, columns=COLUMNS), ARM)
    timed = pd.DataFrame(times, columns=points.columns)
    frame = pd.concat([points, timed]) if times else points
    found = lines.by(with_looks(frame.reset_index(drop=True), evidence), "ablation", "across")
    return [each for each in found if each[_is_scored(each)]["x"].nunique() > 1]


def _is_scored(frame: pd.DataFrame) -> pd.Series:
    return (frame["axis"] == SCORE) & frame["value"].notna()


def _heads(loaded: Loaded, ablation: str) -> dict[Arm, int]:
    """(label, crossing) → heads, of the arms that are the control with other heads."""
    configs, control = _configs(loaded, ablation), loaded.ablations[ablation]["control"]
    found = {
        (label, across): config["model"]["n_heads"]
        for (label, across), config in configs.items()
        if "n_heads" in config["model"]
        and (control, across) in configs
        and _rest(config) == _rest(configs[control, across])
    }
    return found if 2 * len(found) > len(configs) else {}


def _configs(loaded: Loaded, ablation: str) -> dict[Arm, dict[str, Any]]:
    cells = listed(loaded.cells[loaded.cells["ablation"] == ablation])
    return {
        (cell["label"], cell["across"]): loaded.records[cell["trial"]].config
        for cell in cells
        if cell["trial"] in loaded.records
    }


def _rest(config: Mapping[str, Any]) -> dict[str, Any]:
    """All but the heads, their width, the seed, and the rate, which may have been tuned."""
    model = {k: v for k, v in config["model"].items() if k not in ("n_heads", "d_head")}
    optimiser = {k: v for k, v in config["train"].get("optimiser", {}).items() if k != "rate"}
    train = {**config["train"], "optimiser": optimiser}
    return {"task": config["task"], "model": model, "train": train}


def _scores(loaded: Loaded, ablation: str, heads: Mapping[Arm, int]) -> list[dict[str, Any]]:
    metric = loaded.ablations[ablation]["metric"]
    final = final_readings(loaded, ablation, metric["name"], metric["split"], {}, ended=TRAINED)
    read = {(r["label"], r["across"], r["seed"]): r["value"] for r in listed(final)}
    cells = loaded.cells[loaded.cells["ablation"] == ablation]
    heading = metric["label"] + after_heading(metric["unit"])
    return [
        {
            **{name: cell[name] for name in (*ARM, "seed")},
            **_told(cell["label"], cell["across"], heads[cell["label"], cell["across"]]),
            **{"axis": SCORE, "heading": heading, "status": cell["outcome"]},
            "value": read.get((cell["label"], cell["across"], cell["seed"]), math.nan),
        }
        for cell in listed(cells[cells["outcome"] != WAITING])
        if (cell["label"], cell["across"]) in heads
    ]


def _told(label: str, across: str, heads: int) -> dict[str, Any]:
    words = f"{heads} head" if heads == 1 else f"{heads} heads"
    return {"name": cell_name(label, across), "x": float(heads), "place": words}


def _times(evidence: Evidence, ablation: str, heads: Mapping[Arm, int]) -> list[dict[str, Any]]:
    """Of the same models, beside the same control, in whichever question has timed them."""
    speeds, records = evidence.speeds, evidence.loaded.records
    configs = _configs(evidence.loaded, ablation)
    control = evidence.loaded.ablations[ablation]["control"]
    timed = speeds[(speeds["metric"] == STEP) & (speeds["n"] > 0)]
    model_of = {trial: freeze(records[trial].config["model"]) for trial in set(timed["trial"])}
    timed = timed.assign(model=timed["trial"].map(model_of))
    found = []
    for across in dict.fromkeys(across for _, across in heads):
        labels = [label for label, where in heads if where == across]
        models = {label: freeze(configs[label, across]["model"]) for label in labels}
        for _, session in timed.groupby(["ablation", "across"], sort=False):
            beside = session[session["label"] == session["control"]]["model"]
            own = session[session["model"].isin(models.values())]
            if models[control] not in set(beside) or own["model"].nunique() < 2:
                continue
            at = _largest(own)
            there = own[own["at"] == at].drop_duplicates("model").set_index("model")
            found += [
                {
                    **{"ablation": ablation, "across": across, "label": label, "axis": TIME},
                    **_told(label, across, heads[label, across]),
                    **{"heading": f"time of a step over {control}, {at}", "mark": spread.MEAN},
                    **{"seed": None, "status": FINE, "n": there.loc[model, "n"]},
                    **there.loc[model, ["low", "high"]].to_dict(),
                    "value": there.loc[model, "ratio"],
                }
                for label, model in models.items()
                if model in there.index
            ]
            break
    return found


def _largest(own: pd.DataFrame) -> str:
    """The place with the most tokens of those at which the most of them were timed."""
    sizes = {
        at: math.prod(v for v in place.values() if isinstance(v, int | float))
        for place, at in zip(own["place"], own["at"], strict=True)
    }
    held = own.groupby("at")["model"].nunique()
    return max(sizes, key=lambda at: (held[at], sizes[at]))


def inches(frame: pd.DataFrame) -> float:
    more = TIMED + BETWEEN if (frame["axis"] == TIME).any() else 0.0
    return lines.inches(frame) + more


def draw(frame: pd.DataFrame, ax: Axes) -> Axes:
    ax.set_axis_off()
    lines.place(frame, ax)
    first = frame.iloc[0]
    wide, tall = insets.size(ax)
    has_times = bool((frame["axis"] == TIME).any())
    upper = ax.inset_axes(_box(0.0, tall - (TIMED + BETWEEN) * has_times, tall))
    _curve(frame[frame["axis"] == SCORE], upper, None if has_times else "heads")
    if has_times:
        lower = ax.inset_axes(_box(tall - TIMED, TIMED, tall))
        times = frame[frame["axis"] == TIME]
        _curve(times, lower, "heads")
        lower.axhline(1.0, color=style.INK, linewidth=0.5, zorder=0)
        insets.title(lower, times["heading"].iloc[0], wide + 0.3, quiet=True)
    lines.legend(frame, ax)
    title = ", ".join(part for part in (first["ablation"], first["across"]) if part)
    lines.head(ax, title, f"{first['heading']}")
    return ax


def _box(top: float, height: float, tall: float) -> tuple[float, float, float, float]:
    return 0.0, 1 - (top + height) / tall, 1.0, height / tall


def _curve(own: pd.DataFrame, ax: Axes, heading: str | None) -> None:
    """A quiet line through the means; every point has the look of its variant."""
    scales = lines.Scales("log", "linear", lambda value: f"{value:g}")
    ax.set_xscale("log")
    ax.set_ylim(*_limits(own))
    mean = own[own["mark"] == spread.MEAN].sort_values("x")
    ax.plot(mean["x"], mean["value"], color=style.QUIET, linewidth=0.8, zorder=1)
    for _, row in own.iterrows():
        look = {"color": row["colour"], "linestyle": "", "markeredgewidth": 0}
        if row["mark"] == spread.MEAN:
            ax.plot([row["x"]] * 2, [row["low"], row["high"]], color=row["colour"], linewidth=0.8)
            ax.plot(row["x"], row["value"], marker=row["marker"], markersize=4.2, **look)
        elif row["mark"] == spread.SEED:
            ax.plot(row["x"], row["value"], marker="o", markersize=2.2, alpha=0.5, **look)
        else:
            spread.cross(ax, row)
    lines.ticks(ax, sorted(set(own["x"])), scales)
    ax.set_xlabel(heading or "", labelpad=1)


def _limits(own: pd.DataFrame) -> tuple[float, float]:
    if own["axis"].iloc[0] == SCORE:
        return spread.limits(own, log=False)
    ends = [1.0, *own["value"], *own["low"].dropna(), *own["high"].dropna()]
    pad = 0.08 * (max(ends) - min(ends) or 1.0)
    return min(ends) - pad, max(ends) + pad


def describe(frames: list[pd.DataFrame]) -> str:
    parts = []
    for frame in frames:
        first = frame.iloc[0]
        scores = spread.told([frame[frame["axis"] == SCORE]], _subject)
        times = [f"{short(row['name'])}: {number(row['value'])}" for row in listed(frame)
                 if row["axis"] == TIME]  # fmt: skip
        more = f" Time of a step over the control's: {'; '.join(times)}." if times else ""
        parts.append(f" {short(first['ablation'])}, {scores}{more}")
    return "Score and time by the number of heads." + "".join(parts)


def _subject(frame: pd.DataFrame) -> str:
    return str(frame["heading"].iloc[0])
