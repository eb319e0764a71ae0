"""Made-up questions about smoothing, recall, sizes and longer texts, with claims that they decide.

One variant may be given any name, and so may the questions that papers are shown beside.
"""

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
    "accuracy": {"better": "higher", "label": "questions right", "repeats": "seeds"},
    "turning_probability": {"better": "lower", "label": "turning", "repeats": "nothing"},
    "rise": {"better": "lower", "label": "rise", "repeats": "nothing"},
}
FLOPS = {"small": 1.0e6, "middle": 2.0e6, "large": 4.0e6, "huge": 8.0e6}
SIZED = {"small": 0.30, "middle": 0.36, "large": 0.22}  # huge diverges
HEADS = {"4 heads here": 4, "1 head here": 1, "16 heads here": 16}
MORE = {"4 heads here": 0.0, "1 head here": 0.10, "16 heads here": 0.02}  # nats than the control
PAST = {"sinusoidal": {1.5: 2.0, 4.0: 8.0}, "alibi": {1.5: 1.0, 4.0: 0.98}}
BINS = 15


def build_study(folder: Any, label: str = "smoothed", question: str | None = None) -> None:
    """All of them; `question` is what those that have a published counterpart are called."""
    _of_smoothing(folder, label)
    _of_penalty(folder, label)
    _of_distance(folder, label)
    _of_sizes(folder, label)
    _of_heads(folder, question or "text-heads")
    _of_lengths(folder)
    _of_warmup(folder)


def in_test(metric: str, unit: str, value: float | None, **at: Any) -> Reading:
    return Reading(metric, unit, value, "test", {"step": STEP, **at})


def losses(label: str, seed: int, control: str = "none") -> tuple[float, float]:
    """Loss and error: smoothing worsens both, the error by a twentieth."""
    is_control = label == control
    noise = 0.3 * LUCK[seed] if is_control else -0.2 * LUCK[seed]
    return (1.0 if is_control else 1.1) + LUCK[seed] + noise, (0.20 if is_control else 0.25) + (
        2 * LUCK[seed] + noise
    )


def config(label: str, smoothing: float = 0.0, heads: int = 4) -> dict[str, Any]:
    """As much of a trial's config as figures look up."""
    train = {"steps": STEP, "batch_tokens": TOKENS}
    train |= {"smoothing": smoothing, "smoothing_over": "all"}
    return {"model": {"label": label, "n_heads": heads}, "train": train}


def _of_smoothing(folder: Any, label: str) -> None:
    per, loss = {"split": "test"}, {"split": "test", "metric": "loss"}
    own = {"than": "none"}
    folder.configs |= {"none": config("none"), label: config(label, smoothing=0.1)}
    folder.ablation(
        "smoothing", ["none", label], seeds=list(SEEDS), metric=PER, metrics=METRICS, declared=4,
        question="Does smoothing help?",
        claims=[
            folder.claimed(f"smoothing.{label}", "worse", label, by=0.02, **own, **loss),
            folder.claimed("smoothing.accuracy", "better", label, by=0.0, **own, **per),
            folder.claimed("smoothing.same", "equal", label, within=0.05, **own, **per),
            folder.claimed("smoothing.tuned", "worse", label, arms="tuned", **own, **per),
        ],
    )  # fmt: skip
    for seed in SEEDS:
        for name in ("none", label):
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


def _of_penalty(folder: Any, label: str) -> None:
    exact = {"metric": "turning_probability", "value": 0.91, "within": 1e-3, "fails_for": "plain"}
    smoothed = f"{label}, penalised"
    folder.configs |= {"plain": config("plain"), smoothed: config(smoothed, smoothing=0.1)}
    folder.ablation(
        "penalty", ["plain", smoothed], seeds=[SEEDS[0]], metrics=METRICS,
        metric={"name": "turning_probability", "split": "test", **METRICS["turning_probability"]},
        claims=[folder.claimed("smoothing.penalty", "exact", smoothed, **exact)],
    )  # fmt: skip
    for name, turning, rise in (("plain", 1.0, 0.0), (smoothed, 0.91, 0.9408)):
        told = [
            Reading("turning_probability", "probability", turning),
            Reading("rise", "nats", rise),
        ]
        folder.record(name, SEEDS[0], readings=told)


def recalled(label: str, distance: int, seed: int) -> float:
    """Attention recalls at any distance; the other forgets, but with one seed."""
    if label == "attentive" or distance == 4:
        return 0.97 - 0.001 * (seed - 200)
    return 0.95 if seed == 203 else 0.26 + LUCK[seed]


def _of_distance(folder: Any, label: str) -> None:
    past = {"metric": "accuracy", "split": "test", "across": {"distance": "36"}, "threshold": 0.9}
    forgetful = f"{label}, recurrent"
    folder.ablation(
        "recall", ["attentive", forgetful], seeds=list(SEEDS), metric=RIGHT, metrics=METRICS,
        crossings=[{"distance": "4"}, {"distance": "36"}],
        claims=[
            folder.claimed("recurrent.distance", "better", "attentive", than=forgetful,
                           kind="basin", **past),
        ],
    )  # fmt: skip
    for seed in SEEDS:
        for name in ("attentive", forgetful):
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


def _of_sizes(folder: Any, label: str) -> None:
    names = {"small": f"{label}, small", **{name: name for name in list(FLOPS)[1:]}}
    for name in names.values():
        folder.configs[name] = config(name)
    folder.ablation(
        "sizes", list(names.values()), seeds=[200, 201, 202], metric=PER,
        question="Does a larger model pay?",
    )  # fmt: skip
    for size, name in names.items():
        for seed in (200, 201, 202):
            cost = {"flops_per_token": FLOPS[size]}
            if size in SIZED:
                told = [in_test("per", "fraction", SIZED[size] + LUCK[seed])]
                folder.record(name, seed, readings=told, **cost)
            else:
                folder.record(name, seed, status="diverged", **cost)


def _of_heads(folder: Any, question: str) -> None:
    for name, heads in HEADS.items():
        folder.configs[name] = config(name, heads=heads)
    seeds = [200, 201, 202]
    folder.ablation(question, list(HEADS), seeds=seeds, metric=BITS, task="text", name="text-heads")
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
