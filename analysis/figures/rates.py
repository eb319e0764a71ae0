"""Which learning rates go with which warm-up: a map of scores, with what failed."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from matplotlib.patches import Rectangle

from ablations.store.identity import freeze
from ablations.store.record import Record
from analysis import insets, lines, style
from analysis.evidence import Evidence
from analysis.load import WAITING, Loaded, crossing, listed
from analysis.names import cell_name, short
from analysis.scores import FINE, final_readings
from analysis.sentences import number
from analysis.units import after_heading

CAPTION = (
    "Learning rate against steps of warm-up, all else equal: the mean over the seeds that ended "
    "well; the darker, the higher. Hatched: how many seeds failed, of how many. Empty: not tried."
)
MARGINS = style.Margins(left=0.56, right=0.12, above=0.36, below=0.36)
RATE = "train.optimiser.rate"
CELL = 0.27  # inches
LIGHT = 0.45  # of the scale of colours: above it letters are white
FIELD = ["ablation", "group", "heading", "rate", "warmup"]
COLUMNS = [*FIELD, "name", "label", "value", "n", "failed"]


def panels(evidence: Evidence) -> list[pd.DataFrame]:
    """A panel for arms that differ in these two alone: as they were reported, and as tuned."""
    loaded = evidence.loaded
    rows = [
        row
        for name in loaded.ablations
        if len({told["warmup"] for told in _kinds(loaded, name).values()}) > 1
        for row in (*_reported(loaded, name), *_tuned(loaded, name))
    ]
    seen = pd.DataFrame(rows, columns=[*FIELD, "name", "label", "value", "is_fine"])
    fields = []
    for _, own in seen.groupby(FIELD, sort=False):
        fine = own[own["is_fine"] & own["value"].notna()]["value"]
        first = own.iloc[0][[*FIELD, "name", "label"]].to_dict()
        lost = int((~own["is_fine"].astype(bool)).sum())
        if len(fine) + lost:  # or its score is still to be taken
            seeds = len(fine) + lost
            fields.append({**first, "value": fine.mean(), "n": seeds, "failed": lost})
    found = lines.by(pd.DataFrame(fields, columns=COLUMNS), "ablation", "group", "heading")
    return [each for each in found if _is_map(each)]


def _is_map(frame: pd.DataFrame) -> bool:
    """Whether some warm-up has several rates, and some rate several warm-ups."""
    return all(frame[name].duplicated().any() for name in ("rate", "warmup"))


def _kinds(loaded: Loaded, ablation: str) -> dict[tuple[str, str], dict[str, Any]]:
    """(label, crossing) → its rate, its warm-up, and one word for all else."""
    found = {}
    for cell in listed(loaded.cells[loaded.cells["ablation"] == ablation]):
        record = loaded.records.get(cell["trial"])
        if record is not None and (kind := _kind(record)):
            found[cell["label"], cell["across"]] = kind
    return found


def _kind(record: Record) -> dict[str, Any] | None:
    config = {name: value for name, value in record.config.items() if name != "seed"}
    train = dict(config["train"])
    optimiser, schedule = dict(train.get("optimiser") or {}), dict(train.get("schedule") or {})
    rate, warmup = optimiser.pop("rate", None), schedule.pop("warmup", None)
    if rate is None or warmup is None:
        return None
    rest = {**config, "train": {**train, "optimiser": optimiser, "schedule": schedule}}
    return {"rate": float(rate), "warmup": int(warmup), "group": freeze(rest)}


def _reported(loaded: Loaded, ablation: str) -> list[dict[str, Any]]:
    kinds, metric = _kinds(loaded, ablation), loaded.ablations[ablation]["metric"]
    if len({kind["rate"] for kind in kinds.values()}) < 2:
        return []
    final = final_readings(loaded, ablation, metric["name"], metric["split"], {})
    read = {(r["label"], r["across"], r["seed"]): r["value"] for r in listed(final)}
    cells = loaded.cells[(loaded.cells["ablation"] == ablation)]
    return [
        {
            **kinds[cell["label"], cell["across"]],
            **{"ablation": ablation, "label": cell["label"]},
            "name": cell_name(cell["label"], cell["across"]),
            "heading": metric["label"] + after_heading(metric["unit"]),
            "value": read.get((cell["label"], cell["across"], cell["seed"]), math.nan),
            "is_fine": cell["outcome"] == FINE,
        }
        for cell in listed(cells[cells["outcome"] != WAITING])
        if (cell["label"], cell["across"]) in kinds
    ]


def _tuned(loaded: Loaded, ablation: str) -> list[dict[str, Any]]:
    """What tuning has tried for an arm, which is otherwise what its records are."""
    kinds, found = _kinds(loaded, ablation), []
    for choice in loaded.ablations[ablation]["tuning"]:
        across = crossing(choice["across"])
        kind = kinds.get((choice["label"], across))
        for tried in choice["tried"] if kind else []:
            if set(tried["set"]) != {RATE}:
                continue
            told = {
                **(kind or {}),
                **{"ablation": ablation, "label": choice["label"]},
                **{"name": cell_name(choice["label"], across), "rate": float(tried["set"][RATE])},
                "heading": "loss on validation data, while tuning (nats)",
            }
            for loss in tried["losses"]:
                value = math.nan if loss is None else float(loss)
                found.append({**told, "value": value, "is_fine": loss is not None})
    return found


def inches(frame: pd.DataFrame) -> float:
    return MARGINS.above + MARGINS.below + CELL * frame["warmup"].nunique()


def draw(frame: pd.DataFrame, ax: Axes) -> Axes:
    import seaborn as sns  # not before something is drawn: it loads pyplot

    values, words = (_table(frame.assign(words=_words(frame)), each) for each in ("value", "words"))
    norm = _norm(frame["value"].dropna())
    sns.heatmap(
        values.astype(float), ax=ax, cmap=insets.COLOURS, norm=norm, cbar=False, linewidths=0.5,
        xticklabels=[f"{rate:g}" for rate in values.columns],
        yticklabels=[f"{warmup:g}" for warmup in values.index],
    )  # fmt: skip
    for row, warmup in enumerate(values.index):
        for column, rate in enumerate(values.columns):
            own = frame[(frame["warmup"] == warmup) & (frame["rate"] == rate)]
            if len(own):
                _write(ax, row, column, words.loc[warmup, rate], own.iloc[0], norm)
    ax.set_xlabel("learning rate", labelpad=1)
    ax.set_ylabel("warm-up")
    ax.tick_params(length=0, labelsize=style.SMALL)
    ax.tick_params(axis="y", rotation=0)
    first = frame.iloc[0]
    who = ", ".join(dict.fromkeys(frame["label"]))
    lines.head(ax, f"{first['ablation']}: {who}", first["heading"])
    return ax


def _table(frame: pd.DataFrame, values: str) -> pd.DataFrame:
    return frame.pivot(index="warmup", columns="rate", values=values).sort_index()


def _words(frame: pd.DataFrame) -> list[str]:
    """The mean, and how many failed."""
    found = []
    for row in listed(frame):
        lost = f"{row['failed']}/{row['n']} failed" if row["failed"] else ""
        value = f"{row['value']:.3g}" if not math.isnan(row["value"]) else ""
        found.append("\n".join(part for part in (value, lost) if part))
    return found


def _norm(values: pd.Series) -> Normalize:
    low, high = float(values.min()), float(values.max())
    return LogNorm(low, high) if low > 0 and high > 3 * low else Normalize(low, high)


def _write(ax: Axes, row: int, column: int, words: str, own: pd.Series, norm: Normalize) -> None:
    is_dark = not math.isnan(own["value"]) and float(norm(own["value"])) > LIGHT
    if own["failed"]:
        hatch = Rectangle((column, row), 1, 1, facecolor="none", edgecolor=style.QUIET,
                          linewidth=0, hatch="////", zorder=2)  # fmt: skip
        ax.add_patch(hatch)
    lines_of = words.split("\n")
    for index, line in enumerate(lines_of):
        ax.text(
            column + 0.5, row + (index + 0.5) / len(lines_of), line, ha="center", va="center",
            size=6.0, color="white" if is_dark else "#000000", zorder=3,
        )  # fmt: skip


def describe(frames: list[pd.DataFrame]) -> str:
    parts = []
    for frame in frames:
        fields = [
            f"{short(row['name'])}: {number(row['value']) or 'no number'} at rate {row['rate']:g} "
            f"and {row['warmup']:g} steps of warm-up"
            + (f", {row['failed']} of {row['n']} failed" if row["failed"] else "")
            for row in listed(frame)
        ]
        first = frame.iloc[0]
        parts.append(f" {short(first['ablation'])}, {first['heading']}: {'; '.join(fields)}.")
    return "Learning rate against warm-up." + "".join(parts)
