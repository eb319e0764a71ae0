"""What counted work, bytes and dependent steps imply for another device: projected, never measured.

    seconds = FLOPs / peak + bytes / bandwidth + dependent steps · latency

Peak, bandwidth and latency of this machine are fitted to the times of layers whose operations are
all in the open, with the shorter lengths and without the largest width. How far the formula is off
is told by the rest. With the published figures of an accelerator in their place it gives bands, not
numbers: nothing is decided by them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import nnls

from analysis.evidence import Evidence
from analysis.load import Loaded, listed
from analysis.speed import TOKENS

TIME = "layer_time"
WORK, MOVED, STEPS = ("mixing_work", "projection_work"), "moved_bytes", "dependent_steps"
PASSES = {"forward": (1, 1, 1), "training": (3, 3, 2)}
"""Of the forward pass's work, bytes and steps: backward takes twice the work, and as many steps."""
TOLERANCE = 0.3  # median relative error that is called good
LENGTHS = (128, 512, 2048, 8192)


@dataclass(frozen=True)
class Device:
    """FLOP/s in single precision, bytes a second and seconds a launch, from the best to the worst
    that is to be expected."""

    name: str
    peak: tuple[float, float]
    bandwidth: tuple[float, float]
    latency: tuple[float, float]
    source: str = ""


def _accelerator(name: str, peak: float, bandwidth: float, source: str) -> Device:
    """Published figures: programs reach a third of them and more, a launch takes 2 to 10 µs."""
    return Device(name, (peak, peak / 3), (bandwidth, bandwidth / 3), (2e-6, 1e-5), source)


ACCELERATORS = (
    _accelerator("P100", 10.6e12, 732e9, "NVIDIA Tesla P100 data sheet, NVLink"),
    _accelerator("V100", 15.7e12, 900e9, "NVIDIA Tesla V100 data sheet, SXM2"),
    _accelerator("A100", 19.5e12, 1555e9, "NVIDIA A100 data sheet, 40 GB"),
    _accelerator("H100", 67e12, 3350e9, "NVIDIA H100 data sheet, SXM"),
)


@dataclass(frozen=True)
class Projection:
    """The formula fitted here, how far it is off, and what it says of other devices."""

    here: Device
    fitted: int
    """Times that it was fitted to."""
    held_back: int
    error: float
    """Median relative error on the times that were held back."""
    rows: pd.DataFrame
    """Of each device and length: the recurrent layer's time over attention's, from and to."""

    @property
    def is_good(self) -> bool:
        return self.error <= TOLERANCE


def projection(evidence: Evidence) -> Projection | None:
    """None where too little was timed and counted together."""
    points = _points(evidence.loaded, evidence.speeds)
    if points.empty:
        return None
    long = points["length"] > points.groupby("label")["length"].transform(
        lambda lengths: float(np.quantile(sorted(set(lengths)), 2 / 3, method="lower"))
    )
    wide = points["width"] == points["width"].max()
    is_held = long | (wide if points["width"].nunique() > 1 else False)
    fit, rest = points[~is_held], points[is_held]
    if len(fit) < 6 or rest.empty:
        return None
    costs = fitted(_features(fit), fit["seconds"].to_numpy(float))
    predicted = _features(rest) @ costs
    error = float(np.median(np.abs(predicted / rest["seconds"].to_numpy(float) - 1)))
    ends = [1 / cost if cost > 0 else math.inf for cost in costs[:2]]
    here = Device("this machine", (ends[0],) * 2, (ends[1],) * 2, (float(costs[2]),) * 2)
    rows = pd.concat([_ratios(points, device) for device in (here, *ACCELERATORS)])
    return Projection(here, len(fit), len(rest), error, rows.reset_index(drop=True))


def fitted(features: NDArray[np.float64], seconds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Seconds a FLOP, a byte and a step, none below 0, that fit best in relative terms."""
    relative = features / seconds[:, None]
    scale = relative.max(axis=0)
    scale[scale == 0] = 1.0
    found, _ = nnls(relative / scale, np.ones(len(seconds)))
    return np.asarray(found / scale)


def _features(points: pd.DataFrame) -> NDArray[np.float64]:
    return points[["work", "moved", "steps"]].to_numpy(float)


def _points(loaded: Loaded, speeds: pd.DataFrame) -> pd.DataFrame:
    """Every time of one sequence whose trial has its work, bytes and steps counted."""
    counts = _counts(loaded)
    rows = []
    for row in listed(speeds[(speeds["metric"] == TIME) & speeds["seconds"].notna()]):
        place, trial = row["place"], row["trial"]
        if place["batch"] != 1 or TOKENS in place or trial not in counts:
            continue
        times = PASSES[place["pass"]]
        told = [at_length(counts[trial][name], place["length"]) for name in ("work", MOVED, STEPS)]
        width = loaded.records[trial].config.get("model", {}).get("d_model")
        rows.append(
            {
                "trial": trial,
                "label": row["label"],
                "width": width,
                "length": place["length"],
                "pass": place["pass"],
                "seconds": row["seconds"],
                **dict(zip(("work", "moved", "steps"), np.multiply(times, told), strict=True)),
            }
        )
    columns = ["trial", "label", "width", "length", "pass", "seconds", "work", "moved", "steps"]
    return pd.DataFrame(rows, columns=columns).drop_duplicates(["trial", "length", "pass"])


def _counts(loaded: Loaded) -> dict[str, dict[str, dict[float, float]]]:
    """Trial → what is counted → length → how much; not of trials with a kernel that hides some."""
    found: dict[str, dict[str, dict[float, float]]] = {}
    frame = loaded.readings[loaded.readings["metric"].isin([*WORK, MOVED, STEPS])]
    for row in listed(frame.drop_duplicates(["trial", "metric", "length"])):
        if row["value"] is None or math.isnan(row["value"]):
            continue
        name = "work" if row["metric"] in WORK else row["metric"]
        held = found.setdefault(row["trial"], {}).setdefault(name, {})
        length = float(row["at"]["length"])
        held[length] = held.get(length, 0.0) + float(row["value"])
    return {trial: held for trial, held in found.items() if {"work", MOVED, STEPS} <= held.keys()}


def at_length(counted: Mapping[float, float], length: float) -> float:
    """Between counts and beyond them: the parabola through the three that are nearest, since no
    layer's costs grow faster than the square of the length."""
    nearest = sorted(sorted(counted, key=lambda each: abs(math.log(each / length)))[:3])
    values = [counted[each] for each in nearest]
    scaled = np.polyfit(np.array(nearest) / length, values, len(nearest) - 1)
    return max(float(np.polyval(scaled, 1.0)), min(values) * 1e-3)


def _ratios(points: pd.DataFrame, device: Device) -> pd.DataFrame:
    """Slowest growing steps against fastest: the layer with most steps over the one with fewest."""
    training = points[points["pass"] == "training"]
    widest = training[training["width"] == training["width"].max()]
    if widest.empty:
        return pd.DataFrame()
    steps = widest.groupby("label")["steps"].max()
    many, few = str(steps.idxmax()), str(steps.idxmin())
    rows = []
    for length in LENGTHS:
        one, two = (_costs(widest[widest["label"] == label], length) for label in (many, few))
        ratios = [_seconds(one, device, end) / _seconds(two, device, end) for end in (0, 1)]
        rows.append(
            {
                "device": device.name,
                "of": many,
                "than": few,
                "width": widest["width"].iloc[0],
                "length": length,
                "low": min(ratios),
                "high": max(ratios),
                "source": device.source,
            }
        )
    return pd.DataFrame(rows)


def _costs(points: pd.DataFrame, length: float) -> Sequence[float]:
    """Work, bytes and steps of a layer at a length that was perhaps not timed."""
    return [
        at_length(dict(zip(points["length"].astype(float), points[name], strict=True)), length)
        for name in ("work", "moved", "steps")
    ]


def _seconds(costs: Sequence[float], device: Device, end: int) -> float:
    work, moved, steps = costs
    return work / device.peak[end] + moved / device.bandwidth[end] + steps * device.latency[end]


def _times(ratio: float) -> str:
    return f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.2g}"


def view(found: Projection) -> pd.DataFrame:
    """To read: a device a row, a length a column."""
    lines: dict[str, dict[str, Any]] = {}
    for row in listed(found.rows):
        told = (
            _times(row["low"])
            if row["low"] == row["high"]
            else f"{_times(row['low'])} to {_times(row['high'])}"
        )
        lines.setdefault(row["device"], {"device (projected)": row["device"]})[
            f"n = {row['length']}"
        ] = f"{told} ×"
    return pd.DataFrame(lines.values())
