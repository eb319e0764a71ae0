"""Made-up questions with known numbers: one of each thing that is measured, for pages and plots."""

from __future__ import annotations

import math
from typing import Any

from ablations.store.record import Measurement

STEP = 300


def told(unit: str, label: str, repeats: str = "seeds") -> dict[str, str]:
    return {"unit": unit, "better": "lower", "title": label, "repeats": repeats}


METRICS = {
    "layer_time": told("s", "time of a layer", "processes"),
    "step_time": told("s", "time of a step", "processes"),
    "saved_bytes": told("bytes", "kept for backward", "nothing"),
    "peak_memory": told("bytes", "peak memory", "nothing"),
    "mixing_work": told("FLOPs", "work where tokens meet", "nothing"),
    "dependent_steps": told("operations", "operations that wait for one another", "nothing"),
    "path": told("applications", "longest path between tokens", "nothing"),
    "flops_share": told("1", "share of the FLOPs", "nothing"),
    "last_gradient": told("nats/label", "gradient norm in the last block"),
    "pruned_ratio": told("1", "perplexity without heads, over that with all"),
    "perplexity_ratio": told("1", "perplexity past the trained length, over that at its end"),
    "accuracy": {**told("1", "questions right"), "better": "higher"},
}


def in_test(metric: str, unit: str, value: float | None, **at: Any) -> Measurement:
    return Measurement(metric, unit, value, "test", {"step": STEP, **at})


def build(folder: Any) -> None:
    """All questions of this file."""
    for question in (_layers, _models, _schedules, _ladder, _positions, _smoothing,
                     _recall, _heads, _lengths, _warmup):  # fmt: skip
        question(folder)


# --- what is looked up in a model

DEPTHS, REMOVED, PASTS = (2, 4, 8, 16), (0.2, 0.6, 1.0), (1.5, 4.0)
LAYERS = ("encoder.blocks.0.mixer", "decoder.blocks.0.mixer", "decoder.blocks.0.cross")
TOKENS = ("c", "a", "t", "<eos>")
PLACES = (-1.0, -0.5, 0.0, 0.5, 1.0)
TOO_FAR = "positions reach 128"


def probed(seed: int, steep: float = 1.0) -> list[Measurement]:
    """Along depth, heads and length, in maps and on a surface; the steeper one has no number far
    out with its second seed."""
    luck = 1 + 0.02 * (seed % 3) ** 2
    found = [
        Measurement(
            "last_gradient",
            "nats/label",
            0.5 * luck * n ** (-0.5 * steep),
            coordinates={"depth": n},
        )
        for n in DEPTHS
    ]
    for share in REMOVED:
        for by, power in (("importance", 1.0), ("random", 2.0)):
            value = math.exp(3 * steep * power * share**2) * luck
            found.append(in_test("pruned_ratio", "1", value, removed=share, by=by))
    for past in PASTS:
        lost = steep > 1 and seed == 1 and past == PASTS[-1]
        how: dict[str, Any] = (
            {"reason": TOO_FAR} if lost else {"value": 1 + 0.1 * steep * past * luck}
        )
        at = {"step": STEP, "past": past}
        found.append(Measurement("perplexity_ratio", "1", split="test", coordinates=at, **how))
    for layer in LAYERS:
        heads: list[Any] = [0, 1]
        axes: dict[str, list[Any]] = {"head": heads, "query": [*TOKENS], "key": [*TOKENS]}
        values = [[weights(h, i, seed) for i in range(4)] for h in heads]
        place = {"step": STEP, "layer": layer, "example": 7}
        found.append(Measurement("attention", "1", None, "test", place, axes=axes, values=values))
    plane = [[loss(x, y, seed, steep) for y in PLACES] for x in PLACES]
    grid: dict[str, list[Any]] = {"x": list(PLACES), "y": list(PLACES)}
    at = {"step": STEP}
    found.append(Measurement("surface", "nats/token", None, "valid", at, axes=grid, values=plane))
    return [*found, Measurement("curvature", "nats/token", 5.0 * steep + seed, "valid", at)]


def weights(head: int, query: int, seed: int) -> list[float]:
    raw = [1 + (query + key * (head + 1) + seed) % 4 for key in range(4)]
    return [each / sum(raw) for each in raw]


def loss(x: float, y: float, seed: int, steep: float) -> float | None:
    """A bowl that is longer in y; the steeper one has no number in one corner."""
    if steep > 1 and x == y == 1.0:
        return None
    return 2.0 + 0.1 * seed + steep**3 * (4 * x * x + y * y)


# --- what is timed and counted

SEED = 200  # one is enough: speed depends on no seed
LENGTHS, PASSES = (64, 128, 256, 512), ("forward", "training")
TIMED_OUT = ("attention, explicit", "training", 512)
TOO_LONG = "time-out: a call takes 2.1 s"
PARTS = {"mixing": 0.4, "projections": 0.2, "feedforward": 0.3, "head": 0.1}
RATIOS = (0.5, 1.0, 2.0)  # tokens to d_model


def seconds(layer: str, length: int) -> float:
    """Of a forward pass; attention and lstm change places between 256 and 512."""
    attention = 1e-6 * length + 2e-8 * length**2
    return {"lstm": 1e-5 * length, "attention": attention}.get(layer, 2.2 * attention)


def failed(metric: str, at: dict[str, Any]) -> list[Measurement]:
    return [
        Measurement(metric, "s", coordinates=at, session=f"s1.{k}", reason=TOO_LONG)
        for k in range(3)
    ]


def scored(name: str) -> dict[str, Any]:
    return {"name": name, "split": "test", **METRICS[name]}


def _layers(folder: Any) -> None:
    along = {
        "metric": "layer_time",
        "along": "length",
        "coordinates": {"batch": 1, "pass": "forward"},
    }
    layers = ["attention", "attention, explicit", "lstm"]
    claims = [
        folder.claimed("cost.work", "exponent", "lstm", between=(0.9, 1.1), **along),
        folder.claimed("cost.crossover", "crosses", "attention", "lstm", **along),
    ]
    folder.ablation("length", layers, seeds=[SEED], metric=scored("layer_time"), metrics=METRICS,
                    claims=claims)  # fmt: skip
    for layer in layers:
        measurements: list[Measurement] = []
        for length in LENGTHS:
            for way in PASSES:
                at = {"length": length, "batch": 1, "pass": way}
                took = seconds("attention", length) * (3 if way == "training" else 1)
                ratio = seconds(layer, length) / seconds("attention", length)
                is_lost = (layer, way, length) == TIMED_OUT
                measurements += (
                    failed("layer_time", at)
                    if is_lost
                    else folder.timing(ratio, metric="layer_time", seconds=took, **at)
                )
        folder.record(layer, SEED, measurements=measurements)


def _models(folder: Any) -> None:
    place = {"length": 64, "batch": 1, "pass": "training"}
    slower = {
        "than": "transformer",
        "metric": "step_time",
        "coordinates": place,
        "between": (1.2, None),
    }
    claims = [folder.claimed("cost.step", "ratio", "gru", **slower)]
    folder.ablation("models", ["transformer", "gru"], seeds=[SEED], metric=scored("step_time"),
                    metrics=METRICS, claims=claims)  # fmt: skip
    for model, ratio in (("transformer", 1.0), ("gru", 1.6)):
        measurements = folder.timing(ratio, metric="step_time", **place)
        for x in RATIOS:
            amounts = {part: own * (x if part == "mixing" else 1) for part, own in PARTS.items()}
            for part, amount in amounts.items():
                at, share = {"tokens_over_width": x, "part": part}, amount / sum(amounts.values())
                measurements.append(Measurement("flops_share", "1", share, coordinates=at))
        folder.record(model, SEED, measurements=measurements)


def counts(power: int) -> list[Measurement]:
    """Of a layer whose work, bytes and path are these powers of the length."""
    found = []
    for length in LENGTHS:
        at = {"length": length}
        found.append(Measurement("mixing_work", "FLOPs", 128.0 * length**power, coordinates=at))
        steps = 5.0 if power == 2 else 3.0 * length
        found.append(Measurement("dependent_steps", "operations", steps, coordinates=at))
        found.append(Measurement("path", "applications", length ** (2.0 - power), coordinates=at))
        for of, more in (("layer", 1), ("model", 6)):
            where = {"of": of, "length": length}
            kept = 256.0 * more * length + 8.0 * length**power
            found.append(Measurement("saved_bytes", "bytes", kept, coordinates=where))
            small = {"reason": "below 1 MiB"} if length == LENGTHS[0] else {"value": 90.0 * kept}
            found.append(Measurement("peak_memory", "bytes", coordinates=where, **small))
    return found


# --- what is trained

STEPS = (0, 100, 200, 300)
LOSS = {"name": "loss", "split": "valid", "better": "lower", "title": "loss", "unit": "nats/token"}
RATE = "train.optimizer.lr"
CHOSEN = {"both": 1e-2, "no warm-up": 3e-3, "no decay": 3e-2}
WORTH = {"no positions": 0.2, "one head": 0.03, "no scale": -0.02, "no dropout": 0.01}
PER = {"name": "per", "split": "test", "better": "lower", "title": "phone error rate"}
BITS = {"name": "bits", "split": "test", "better": "lower", "title": "bits per character"}
SEEDS = (200, 201, 202, 203, 204)
LUCK = {200: 0.000, 201: 0.004, 202: -0.003, 203: 0.002, 204: -0.001}
MORE = {"4 heads here": 0.0, "1 head here": 0.10, "16 heads here": 0.02}  # nats than the control
PAST = {"sinusoidal": {1.5: 2.0, 4.0: 8.0}, "alibi": {1.5: 1.0, 4.0: 0.98}}
BITS_AT = {"pre, none": 2.0, "post, none": None, "post, 150 steps": 2.2}
NOTHING = 4.0  # bits without looking
BINS = 15


def loss_at(step: int, seed: int, level: float) -> float:
    """Falls from 4 towards the level; every seed has a luck of its own."""
    return level + 0.01 * (seed % 3) ** 2 + (4 - level) * math.exp(-step / 80)


def learning(seed: int, level: float, steps: tuple[int, ...] = STEPS) -> list[Measurement]:
    """On validation data, and lower on what the model is trained on."""
    return [
        Measurement("loss", "nats/token", loss_at(step, seed, level) - less, split, {"step": step})
        for split, less in (("train", 0.5), ("valid", 0.0))
        for step in steps
    ]


def _schedules(folder: Any) -> None:
    tuning = [
        {"variant": label, "factors": {}, "chosen": {RATE: best}, "at_edge": label == "no decay",
         "tried": []}
        for label, best in CHOSEN.items()
    ]  # fmt: skip
    folder.ablation("schedule [tuned]", list(CHOSEN), name="schedule", metric=LOSS,
                    grid={RATE: [1.0]}, tuning=tuning)  # fmt: skip
    for label, level in zip(CHOSEN, (1.8, 2.0, 1.9), strict=True):
        for seed in (0, 1, 2):
            if (label, seed) == ("no warm-up", 1):
                early = learning(seed, 3.9, STEPS[:2])
                folder.record(label, seed, status="diverged", measurements=early)
            else:
                folder.record(label, seed, measurements=learning(seed, level))


def config(label: str, heads: int = 4) -> dict[str, Any]:
    """As much of a trial's config as figures look up."""
    train = {"steps": STEP, "batch_tokens": 1000}
    return {"model": {"variant": label, "n_heads": heads}, "train": train}


def _ladder(folder: Any) -> None:
    labels = ["whole", *WORTH, "no residual"]
    folder.configs |= {name: config(name) for name in labels}
    folder.ablation("ladder", labels, seeds=[0, 1, 2, 3])
    for seed in (0, 1, 2, 3):
        for i, (label, worth) in enumerate({"whole": 0.0, **WORTH}.items()):
            score = 0.3 + 0.01 * seed + worth + 0.002 * (seed % 3) * (i > 0)
            folder.record(label, seed, score, flops_per_token=1e6 * (5 - i))
        folder.record("no residual", seed, status="diverged")


def cosine(i: int, j: int, steep: float = 1.0) -> float:
    return round(math.cos(steep * (i - j)), 4)


def _positions(folder: Any) -> None:
    folder.ablation("where", ["sines", "table"])
    places: list[Any] = [0, 1, 2, 3]
    for seed in (0, 1, 2):
        for label, steep in (("sines", 0.3), ("table", 1.0 + seed)):
            values = [[cosine(i, j, steep) for j in places] for i in places]
            alike = Measurement("position_similarity", "cosine", None, "test", {"step": STEP},
                            axes={"position": places, "other": places}, values=values)  # fmt: skip
            folder.record(label, seed, 0.2, measurements=[alike])


def bins(seed: int, lean: float) -> list[list[float | None]]:
    """Of each bin its edges, confidence, accuracy and count; the first is empty, the second has
    too few labels to be shown."""
    rows: list[list[float | None]] = []
    for k in range(BINS):
        middle, count = (k + 0.5) / BINS, (0, 3)[k] if k < 2 else 100 + 10 * k + seed % 10
        right = min(1.0, max(0.0, middle - lean + 0.01 * (seed % 3)))
        held = [middle, right] if count else [None, None]
        rows.append([k / BINS, (k + 1) / BINS, *held, count])
    return rows


def _smoothing(folder: Any) -> None:
    names = ["lower edge", "upper edge", "confidence", "accuracy", "count"]
    axes: dict[str, list[Any]] = {"bin": list(range(BINS)), "quantity": names}
    folder.ablation("smoothing", ["none", "smoothed"], seeds=list(SEEDS), metric=PER)
    for seed in SEEDS:
        for name, lean in (("none", 0.1), ("smoothed", -0.05)):
            error = in_test("calibration_error", "1", abs(lean) + LUCK[seed])
            diagram = Measurement("reliability", "probability", None, "test", {"step": STEP},
                              axes=axes, values=bins(seed, lean))  # fmt: skip
            score = in_test("per", "fraction", 0.2 + lean + LUCK[seed])
            folder.record(name, seed, measurements=[score, error, diagram])


def recalled(label: str, distance: int, seed: int) -> float:
    """Attention recalls at any distance; the other forgets, but with one seed."""
    if label == "attentive" or distance == 4:
        return 0.97 - 0.001 * (seed - 200)
    return 0.95 if seed == 203 else 0.26 + LUCK[seed]


def _recall(folder: Any) -> None:
    folder.ablation("recall", ["attentive", "forgetful"], seeds=list(SEEDS),
                    metric=scored("accuracy"), metrics=METRICS,
                    crossings=[{"distance": "4"}, {"distance": "36"}])  # fmt: skip
    for seed in SEEDS:
        for name in ("attentive", "forgetful"):
            for distance in (4, 36):
                right = recalled(name, distance, seed)
                measurements = [
                    in_test("accuracy", "right/question", right),
                    Measurement("trivial_accuracy", "right/question", 0.25, "test"),
                ]
                ended = {"status": "stuck"} if right < 0.5 and seed == 202 else {}
                place = {"factors": {"distance": str(distance)}}
                folder.record(name, seed, measurements=measurements, **place, **ended)


def _heads(folder: Any) -> None:
    for name in MORE:
        folder.configs[name] = config(name, heads=int(name.split()[0]))
    folder.ablation("text-heads", list(MORE), seeds=[200, 201, 202], metric=BITS, task="text")
    for name, more in MORE.items():
        for seed in (200, 201, 202):
            nats = 1.4 + LUCK[seed] + more * (1 + 10 * LUCK[seed])
            folder.record(name, seed, measurements=[in_test("loss", "nats/token", nats)])


def _lengths(folder: Any) -> None:
    folder.ablation("longer", list(PAST), seeds=[300, 301, 302], metric=BITS, task="text")
    for name, own in PAST.items():
        for seed in (300, 301, 302):
            measurements = [
                in_test("perplexity_ratio", "1", ratio + 0.01 * (seed - 301), past=past)
                for past, ratio in own.items()
            ]
            folder.record(name, seed, measurements=measurements)


def _warmup(folder: Any) -> None:
    folder.ablation("warmup", list(BITS_AT), seeds=[200, 201, 202], metric=BITS, task="text")
    for name, bits in BITS_AT.items():
        for seed in (200, 201, 202):
            if bits is None:
                folder.record(name, seed, status="stuck")
                continue
            measurements = [in_test("bits", "bits/character", bits + LUCK[seed])]
            measurements += [Measurement("trivial_bits", "bits/character", NOTHING, "test")]
            folder.record(name, seed, measurements=measurements)
