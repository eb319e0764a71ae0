"""Made-up questions about smoothing, recall, sizes and longer texts, for figures to draw."""

from __future__ import annotations

from typing import Any

from ablations.store.record import Reading

SEEDS = (200, 201, 202, 203, 204)
LUCK = {200: 0.000, 201: 0.004, 202: -0.003, 203: 0.002, 204: -0.001}
STEP, TOKENS = 300, 1000
PER = {"name": "per", "split": "test", "better": "lower", "label": "phone error rate"}
BITS = {"name": "bits", "split": "test", "better": "lower", "label": "bits per character"}
RIGHT = {"name": "accuracy", "split": "test", "better": "higher", "label": "questions right"}
METRICS = {
    "loss": {"unit": "nats/token", "better": "lower", "label": "loss", "repeats": "seeds"},
    "accuracy": {"unit": "1", "better": "higher", "label": "questions right", "repeats": "seeds"},
}
FLOPS = {"small": 1.0e6, "middle": 2.0e6, "large": 4.0e6, "huge": 8.0e6}
SIZED = {"small": 0.30, "middle": 0.36, "large": 0.22}  # huge diverges
HEADS = {"4 heads here": 4, "1 head here": 1, "16 heads here": 16}
MORE = {"4 heads here": 0.0, "1 head here": 0.10, "16 heads here": 0.02}  # nats than the control
PAST = {"sinusoidal": {1.5: 2.0, 4.0: 8.0}, "alibi": {1.5: 1.0, 4.0: 0.98}}
BINS = 15


def build_study(folder: Any) -> None:
    """All of them."""
    _of_smoothing(folder)
    _of_distance(folder)
    _of_sizes(folder)
    _of_heads(folder)
    _of_lengths(folder)
    _of_warmup(folder)


def in_test(metric: str, unit: str, value: float | None, **at: Any) -> Reading:
    return Reading(metric, unit, value, "test", {"step": STEP, **at})


def losses(label: str, seed: int) -> tuple[float, float]:
    """Loss and error: smoothing worsens both, the error by a twentieth."""
    is_control = label == "none"
    noise = 0.3 * LUCK[seed] if is_control else -0.2 * LUCK[seed]
    return (1.0 if is_control else 1.1) + LUCK[seed] + noise, (0.20 if is_control else 0.25) + (
        2 * LUCK[seed] + noise
    )


def config(label: str, heads: int = 4) -> dict[str, Any]:
    """As much of a trial's config as figures look up."""
    train = {"steps": STEP, "batch_tokens": TOKENS}
    return {"model": {"label": label, "n_heads": heads}, "train": train}


def _of_smoothing(folder: Any) -> None:
    folder.configs |= {name: config(name) for name in ("none", "smoothed")}
    folder.ablation("smoothing", ["none", "smoothed"], seeds=list(SEEDS), metric=PER,
                    metrics=METRICS)  # fmt: skip
    for seed in SEEDS:
        for name in ("none", "smoothed"):
            loss_, error = losses(name, seed)
            readings = [in_test("loss", "nats/token", loss_)]
            readings += [in_test("per", "fraction", error)]
            readings += calibration(seed, 0.1 if name == "none" else -0.05)
            folder.record(name, seed, readings=readings, flops_per_token=3.0e6)


def bins(seed: int, lean: float) -> list[list[float | None]]:
    """Of each bin its edges, confidence, accuracy and count; the first is empty, the second has
    too few labels to be shown."""
    rows: list[list[float | None]] = []
    for k in range(BINS):
        low, high = k / BINS, (k + 1) / BINS
        middle = (low + high) / 2
        count = (0, 3)[k] if k < 2 else 100 + 10 * k + seed % 10
        right = min(1.0, max(0.0, middle - lean + 0.01 * (seed % 3)))
        rows.append([low, high, middle if count else None, right if count else None, count])
    return rows


def calibration(seed: int, lean: float) -> list[Reading]:
    names = ["lower edge", "upper edge", "confidence", "accuracy", "count"]
    axes: dict[str, list[Any]] = {"bin": list(range(BINS)), "quantity": names}
    error = in_test("calibration_error", "1", abs(lean) + 0.001 * (seed - 200))
    diagram = Reading("reliability", "probability", None, "test", {"step": STEP}, axes=axes,
                      values=bins(seed, lean))  # fmt: skip
    return [error, diagram]


def recalled(label: str, distance: int, seed: int) -> float:
    """Attention recalls at any distance; the other forgets, but with one seed."""
    if label == "attentive" or distance == 4:
        return 0.97 - 0.001 * (seed - 200)
    return 0.95 if seed == 203 else 0.26 + LUCK[seed]


def _of_distance(folder: Any) -> None:
    folder.ablation("recall", ["attentive", "forgetful"], seeds=list(SEEDS), metric=RIGHT,
                    metrics=METRICS, crossings=[{"distance": "4"}, {"distance": "36"}])  # fmt: skip
    for seed in SEEDS:
        for name in ("attentive", "forgetful"):
            for distance in (4, 36):
                right = recalled(name, distance, seed)
                readings = [
                    in_test("accuracy", "right/question", right),
                    in_test("accuracy", "right/question", right, distance=distance),
                    Reading("trivial_accuracy", "right/question", 0.25, "test"),
                ]
                ended = {"status": "stuck"} if right < 0.5 and seed == 202 else {}
                place = {"across": {"distance": str(distance)}}
                folder.record(name, seed, readings=readings, **place, **ended)


def _of_sizes(folder: Any) -> None:
    folder.configs |= {size: config(size) for size in FLOPS}
    folder.ablation("sizes", list(FLOPS), seeds=[200, 201, 202], metric=PER)
    for size, flops in FLOPS.items():
        for seed in (200, 201, 202):
            if size in SIZED:
                told = [in_test("per", "fraction", SIZED[size] + LUCK[seed])]
                folder.record(size, seed, readings=told, flops_per_token=flops)
            else:
                folder.record(size, seed, status="diverged", flops_per_token=flops)


def _of_heads(folder: Any) -> None:
    for name, heads in HEADS.items():
        folder.configs[name] = config(name, heads=heads)
    seeds = [200, 201, 202]
    folder.ablation("text-heads", list(HEADS), seeds=seeds, metric=BITS, task="text")
    for name in HEADS:
        for seed in seeds:
            loss = 1.4 + LUCK[seed] + MORE[name] * (1 + 10 * LUCK[seed])
            readings = [in_test("loss", "nats/token", loss)]
            folder.record(name, seed, readings=readings)


def _of_lengths(folder: Any) -> None:
    seeds = [300, 301, 302]
    folder.ablation("longer", list(PAST), seeds=seeds, metric=BITS, task="text")
    for name, own in PAST.items():
        for seed in seeds:
            readings = [
                in_test("perplexity_ratio", "1", ratio + 0.01 * (seed - 301), past=past)
                for past, ratio in own.items()
            ]
            folder.record(name, seed, readings=readings)


def _of_warmup(folder: Any) -> None:
    seeds = [200, 201, 202]
    labels = {"pre, none": 2.0, "post, none": None, "post, 150 steps": 2.2}
    folder.ablation("warmup", list(labels), seeds=seeds, metric=BITS, task="text")
    for name, bits in labels.items():
        for seed in seeds:
            if bits is None:
                folder.record(name, seed, status="stuck")
                continue
            told = [in_test("bits", "bits/character", bits + LUCK[seed])]
            told += [Reading("trivial_bits", "bits/character", 4.0, "test")]
            folder.record(name, seed, readings=told)
