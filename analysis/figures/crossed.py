"""How a question's answer depends on the factor that it is crossed with."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from ablations.store.record import TRAINED
from analysis import lines, spread, style
from analysis.curves import with_looks
from analysis.evidence import Evidence
from analysis.load import WAITING, Loaded, crossing, listed
from analysis.names import cell_name
from analysis.scores import final_readings
from analysis.sentences import count
from analysis.units import after_heading

CAPTION = (
    "The score of each variant at each level of what the question is crossed with. Line: mean "
    "over the seeds that ended well; bar: 95 % interval (Student's t) from three of them on; dots: "
    "single seeds; a cross: a seed that failed, at what it came to, or on top. Variants stand a "
    "little side by side."
)
MARGINS = lines.MARGINS
FAR = 3  # times the smallest level: from there on levels are multiplied, not added
ARM = ["ablation", "factor", "rest", "label"]
COLUMNS = [*ARM, "across", "name", "seed", "status", "metric_label", "unit", "is_number", "x",
           "place", "value"]  # fmt: skip


def panels(evidence: Evidence) -> list[pd.DataFrame]:
    """A panel for each factor with several levels, at each level of the others."""
    rows = [row for name in evidence.loaded.ablations for row in _points(evidence.loaded, name)]
    points = pd.DataFrame(rows, columns=COLUMNS)
    frame = spread.over_seeds(points, [*ARM, "x"])
    found = lines.by(with_looks(frame, evidence), "ablation", "factor", "rest")
    return [panel for panel in found if panel[panel["value"].notna()]["x"].nunique() > 1]


def _points(loaded: Loaded, ablation: str) -> list[dict[str, Any]]:
    """Every trial of a crossed question that has ended, once for each of its factors."""
    entry = loaded.ablations[ablation]
    metric = entry["metric"]
    known = {crossing(cell["across"]): cell["across"] for cell in entry["cells"]}
    factors = list(dict.fromkeys(name for across in known.values() for name in across))
    if not factors:
        return []
    final = final_readings(loaded, ablation, metric["name"], metric["split"], {}, ended=TRAINED)
    scores = {(r["label"], r["across"], r["seed"]): r for r in listed(final)}
    cells = loaded.cells[loaded.cells["ablation"] == ablation]
    found = []
    for factor in factors:
        levels = list(dict.fromkeys(a[factor] for a in known.values() if factor in a))
        places = _places(levels)
        for cell in listed(cells[cells["outcome"] != WAITING]):
            across = dict(known[cell["across"]])
            if factor not in across:
                continue
            level = across.pop(factor)
            read = scores.get((cell["label"], cell["across"], cell["seed"]), {})
            rest = crossing(across)
            found.append(
                {
                    **{name: cell[name] for name in ("ablation", "label", "across", "seed")},
                    **{"factor": factor, "rest": rest, "name": cell_name(cell["label"], rest)},
                    **{"status": cell["outcome"], "metric_label": metric["label"]},
                    **{"unit": read.get("unit", metric["unit"]), "place": level},
                    **{"is_number": places is not None, "value": read.get("value", math.nan)},
                    "x": levels.index(level) if places is None else places[level],
                }
            )
    return found


def _places(levels: list[str]) -> dict[str, float] | None:
    """What number each level is; None where one is none."""
    try:
        found = {level: float(level) for level in levels}
    except ValueError:
        return None
    return found if all(map(math.isfinite, found.values())) else None


def inches(frame: pd.DataFrame) -> float:
    return lines.inches(frame)


def draw(frame: pd.DataFrame, ax: Axes) -> Axes:
    first = frame.iloc[0]
    least, most = frame["x"].min(), frame["x"].max()
    is_far = bool(first["is_number"]) and least > 0 and most > FAR * least
    scales = lines.Scales("log" if is_far else "linear", "linear", lambda value: f"{value:g}")
    spread.begin(frame, ax, scales)
    spread.bars(frame, ax)
    spread.finish(frame, ax, scales)
    _name_levels(frame, ax)
    ax.set_xlabel(style.fit(first["factor"], 2.2), labelpad=1)
    title = ", ".join(part for part in (first["ablation"], first["rest"]) if part)
    heading = f"{first['metric_label']} by {first['factor']}{after_heading(first['unit'])}"
    lines.head(ax, title, heading)
    return ax


def _name_levels(frame: pd.DataFrame, ax: Axes) -> None:
    """Each where it stands, as it is called, or as a count."""
    levels = frame.drop_duplicates("x").sort_values("x")
    room = 2.6 / len(levels)
    names = [
        count(row["x"]) if row["is_number"] else style.fit(row["place"], room, style.SMALL)
        for row in listed(levels)
    ]
    ax.set_xticks(levels["x"].tolist(), names)


def describe(frames: list[pd.DataFrame]) -> str:
    return "Scores by what a question is crossed with. " + spread.told(frames, _subject)


def _subject(frame: pd.DataFrame) -> str:
    first = frame.iloc[0]
    return f"{first['ablation']}, {first['metric_label']} by {first['factor']}"
