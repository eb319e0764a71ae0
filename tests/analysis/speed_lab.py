"""A made-up speed lab: layers and models that are timed and counted, as the measures tell it."""

from __future__ import annotations

from typing import Any

from ablations.store.record import Reading

SEED = 200  # one is enough: speed depends on no seed
LENGTHS, PASSES = (64, 128, 256, 512), ("forward", "training")
BUDGET = 1024  # tokens
WIDTHS = ("64", "128")
LAYERS = ("attention", "attention, explicit", "lstm", "window")
MODELS = ("transformer", "gru", "convolution")
COUNTED = {"explicit": (2, 1.0), "fused": (1, 1.0), "recurrent": (1, 1.7)}  # power, and bytes
TIMED_OUT = ("attention, explicit", "128", "training", 512)
TOO_LONG = "time-out: a call takes 2.1 s"
PARTS = {"mixing": 0.4, "projections": 0.2, "feedforward": 0.3, "head": 0.1}
RATIOS = (0.5, 1.0, 2.0)  # tokens to d_model


def _told(unit: str, label: str, repeats: str) -> dict[str, str]:
    return {"unit": unit, "better": "lower", "label": label, "repeats": repeats}


METRICS = {
    "layer_time": _told("s", "time of a layer", "processes"),
    "step_time": _told("s", "time of a step", "processes"),
    "latency": _told("s", "time of the next token", "processes"),
    "latency_tail": _told("s", "95th percentile of it", "processes"),
    "saved_bytes": _told("bytes", "kept for backward", "nothing"),
    "peak_memory": _told("bytes", "peak memory", "nothing"),
    "mixing_work": _told("FLOPs", "work where tokens meet", "nothing"),
    "dependent_steps": _told("operations", "operations that wait for one another", "nothing"),
    "path": _told("applications", "longest path between tokens", "nothing"),
    "flops_share": _told("1", "share of the FLOPs", "nothing"),
    "time_share": _told("1", "share of the time, beside whatever else runs", "nothing"),
}


def metric(name: str) -> dict[str, str]:
    """The score of a question, as its plan tells it."""
    return {"name": name, "split": "test", **METRICS[name]}


def build_lab(folder: Any) -> None:
    """Three questions: of layers at crossed widths, of whole models, and of what is counted."""
    _of_layers(folder)
    _of_models(folder)
    _of_counts(folder)


def seconds(layer: str, length: int) -> float:
    """Of a forward pass; attention and lstm change places between 256 and 512."""
    attention = 1e-6 * length + 2e-8 * length**2
    return {"lstm": 1e-5 * length, "window": 3e-6 * length}.get(
        layer, attention * (2.2 if "explicit" in layer else 1.0)
    )


def _of_layers(folder: Any) -> None:
    place = {"at": {"batch": 1, "pass": "forward"}, "across": {"width": "64"}}
    along = {"metric": "layer_time", "along": "length", **place}
    folder.ablation(
        "length", LAYERS, seeds=[SEED], metric=metric("layer_time"), metrics=METRICS,
        question="How does the time of a layer grow?",
        crossings=[{"width": width} for width in WIDTHS],
        claims=[
            folder.claimed("cost.work", "exponent", "lstm", between=(0.9, 1.1), **along),
            folder.claimed("cost.crossover", "crosses", "attention", "lstm", **along),
        ],
    )  # fmt: skip
    for width in WIDTHS:
        for layer in LAYERS:
            readings = layer_times(folder, layer, int(width))
            folder.record(layer, SEED, across={"width": width}, readings=readings)


def layer_times(folder: Any, layer: str, width: int = 64) -> list[Reading]:
    """At every length, forward and in training, of one sequence and of a budget of tokens."""
    found: list[Reading] = []
    for length in LENGTHS:
        for pass_ in PASSES:
            for budget in ({}, {"tokens": BUDGET}):
                batch = BUDGET // length if budget else 1
                at = {"length": length, "batch": batch, "pass": pass_, **budget}
                if (layer, str(width), pass_, length) == TIMED_OUT:
                    found += failed("layer_time", at)
                    continue
                scale = width / 64 * batch * (3 if pass_ == "training" else 1)
                control = seconds("attention", length) * scale
                ratio = seconds(layer, length) / seconds("attention", length)
                found += folder.timing(ratio, metric="layer_time", seconds=control, **at)
    return found


def failed(metric: str, at: dict[str, Any]) -> list[Reading]:
    return [Reading(metric, "s", at=at, session=f"s1.{k}", reason=TOO_LONG) for k in range(3)]


def _of_models(folder: Any) -> None:
    place = {"length": 64, "batch": 1, "pass": "training"}
    slower = {"than": "transformer", "metric": "step_time", "at": place, "between": (1.2, None)}
    folder.ablation(
        "models", MODELS, seeds=[SEED], metric=metric("step_time"), metrics=METRICS,
        question="Which model is fastest?",
        claims=[folder.claimed("cost.step", "ratio", "gru", **slower)],
    )  # fmt: skip
    for model, ratio in zip(MODELS, (1.0, 1.6, 0.55), strict=True):
        folder.record(model, SEED, readings=of_model(folder, ratio))


def of_model(folder: Any, ratio: float) -> list[Reading]:
    """Step times by length and batch, the next token by position, and shares by part."""
    found: list[Reading] = []
    for length in (32, 64, 128):
        for batch in (1, 16):
            at = {"length": length, "batch": batch, "pass": "training"}
            took = {"metric": "step_time", "seconds": 1e-5 * length * batch}
            found += folder.timing(ratio ** (length / 64), **took, **at)
    for position in (16, 64, 256):
        at = {"position": position, "batch": 1, "cache": "kept"}
        found += folder.timing(ratio, metric="latency", seconds=1e-3 + 4e-6 * position, **at)
        tails = [2.0e-3, 1.9e-3, 9.0e-3]
        found += [
            Reading("latency_tail", "s", tail * ratio, at=at, session=f"s1.{k}")
            for k, tail in enumerate(tails)
        ]
    return [*found, *shares()]


def shares() -> list[Reading]:
    """The longer the input, the more goes to mixing; in each of three processes a little more."""
    found = []
    for x in RATIOS:
        amounts = {part: share * (x if part == "mixing" else 1) for part, share in PARTS.items()}
        for part, amount in amounts.items():
            at, share = {"tokens_over_width": x, "part": part}, amount / sum(amounts.values())
            found.append(Reading("flops_share", "1", share, at=at))
            each = [share * (1 + 0.01 * k) for k in (-1, 0, 1)]
            axes = {"process": [0, 1, 2]}
            found.append(Reading("time_share", "1", at=at, axes=axes, values=each))
    return found


def _of_counts(folder: Any) -> None:
    folder.ablation(
        "paper", list(COUNTED), seeds=[SEED], metric=metric("mixing_work"), metrics=METRICS,
        question="Do costs grow as the table says?",
        claims=[
            complexity_claim(folder, *pair)
            for pair in (("explicit", "fused"), ("fused", "explicit"), ("recurrent", "explicit"))
        ],
    )  # fmt: skip
    for label in COUNTED:
        folder.record(label, SEED, readings=counts(*COUNTED[label]))


def complexity_claim(folder: Any, label: str, other: str) -> dict[str, Any]:
    """Powers of the work and of the steps, and one path; what is counted need not agree."""
    power = 2 if label == "explicit" else 1
    told = {"value": 9.0 if power == 1 else 1.0, "within": 0.0, "fails_for": other}
    place = {"metric": "path", "at": {"length": 64}}
    claim: dict[str, Any] = folder.claimed(f"cost.{label}", "exact", label, **place, **told)
    for name, by in (("mixing_work", power), ("dependent_steps", 2 - power)):
        bounds = {"metric": name, "along": "length", "between": (by - 0.02, by + 0.02)}
        claim["predicts"] += folder.claimed("", "exponent", label, **bounds)["predicts"]
    return claim


def counts(power: int, wide: float = 1.0) -> list[Reading]:
    """Of a layer whose work, bytes and path are these powers of the length."""
    found = []
    for length in LENGTHS:
        at = {"length": length}
        found.append(Reading("mixing_work", "FLOPs", 128.0 * length**power, at=at))
        steps = 5.0 if power == 2 else 3.0 * length
        found.append(Reading("dependent_steps", "operations", steps, at=at))
        found.append(Reading("path", "applications", length ** (2.0 - power), at=at))
        for of, more in (("layer", 1), ("model", 6)):
            where = {"of": of, "length": length}
            kept = wide * (256.0 * more * length + 8.0 * length**power)
            found.append(Reading("saved_bytes", "bytes", kept, at=where))
            small = {"reason": "below 1 MiB"} if length == LENGTHS[0] else {"value": 90.0 * kept}
            found.append(Reading("peak_memory", "bytes", at=where, **small))
    return found
