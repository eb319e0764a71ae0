"""What was found here beside what a paper reports: each over its own baseline, never blended."""

from __future__ import annotations

from analysis.contrasts import Evidence
from analysis.plots import canvas, lines, style
from analysis.plots.canvas import Panel
from analysis.published import OURS, comparisons

CAPTION = (
    "What was found here (filled) beside what a paper reports (hollow), each over its own "
    "baseline: tasks, sizes and budgets differ, so shapes can be compared and values cannot. "
    "Bars: 95 % intervals over seeds; small dots: seeds; papers give single numbers. The level "
    "line is the baseline."
)
QUANTITIES = {
    "perplexity": "perplexity over that of its own baseline",
    "gain": "share of what the baseline has gained over knowing nothing",
    "past": "perplexity over that at the trained length",
}


def panels(evidence: Evidence) -> list[Panel]:
    found = []
    known = canvas.looks_of(evidence)  # of a variant that this folder has; a paper may have others
    elsewhere = style.Look(style.INK, "s", ())
    for frame in comparisons(evidence):
        first, ours = frame.iloc[0], frame["side"] == OURS
        is_by_label = first["quantity"] == "past"
        here = known if is_by_label else {}
        sides = frame["side"].map({OURS: "here"}).fillna("published")
        each = [vars(here.get(label, elsewhere)) for label in frame["label"]]
        drawn = frame.assign(
            **{key: [look[key] for look in each] for key in vars(elsewhere)},
            name=frame["label"] + ", " + sides if is_by_label else sides,
            hollow=~ours, n=frame["seeds"].map(len),
            points=frame["seeds"], lost=[[]] * len(frame),
            tick=frame["tick"].str.replace(" ", "\n"),
        )  # fmt: skip
        drawn.attrs |= {"level": 1.0, "x_log": bool(frame["x"].min() > 0), "y_log": is_by_label}
        drawn.attrs |= {"joined": first["quantity"] != "gain", "x_label": first["across"]}
        measured = drawn[ours & (drawn["n"] > 1)]  # at its own baseline a ratio is 1 by definition
        found.append(
            Panel(
                kind="published", ablation=str(first["ablation"]), frame=drawn, plot=lines.plot,
                title=canvas.heading(first["ablation"], first["title"]),
                subtitle=QUANTITIES[first["quantity"]],
                note=f"{canvas.counted(measured)}; published: {first['source']}".strip("; "),
                size=(style.WIDTH, 2.75),
            )
        )  # fmt: skip
    return found
