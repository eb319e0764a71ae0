"""Formulas and worked examples of lectures, recomputed with this project's components.

B: sequences, H: heads, T: target positions, S: source positions or keys, K: width of a head, W:
width of a position's vector.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor

from ablations.benchmarks.throughput import random_batch
from ablations.measurement import MEASUREMENT, Measured, Metric, Probe, untrained
from ablations.tasks.task import Task
from model.attention import MASK, PATH, SCALE, Path
from model.batch import Batch, cross_entropy
from model.build import build, resolve
from model.layers import evaluating
from model.positions import InputScheme

WIDTH = 64  # of the slide's heads
PRINTED = {
    "first": ((112.0, 96.0, 16.0, 8.0), (0.87, 0.12, 0.01, 0.0)),
    "second": ((92.0, 124.0, 22.0, 8.0), (0.08, 0.91, 0.01, 0.0)),
}
"""Example → dot products, and the weights that the slide has for them (MIT 6.861)."""
SCALES = {"scaled": "sqrt_d_head", "raw": "none"}


@MEASUREMENT.register("worked")
class Worked(Probe):
    """The largest |p − printed|, p = softmax(qᵀk / √64) by this project's own attention.

    `raw` leaves the division out, which shows that a wrong formula would be seen.
    """

    metrics: ClassVar = {
        "slide_gap": Metric(
            "probability", "lower", "largest gap to the printed weights", repeats="nothing"
        )
    }

    def measure(self, config: dict[str, Any], task: Task, device: torch.device) -> Measured:
        measurements = []
        for example, (products, printed) in PRINTED.items():
            for word, scale in SCALES.items():
                gap_S = attended(products, scale).cpu() - torch.tensor(printed, dtype=torch.float64)
                at = {"example": example, "scores": word}
                measurements.append(self.measurement("slide_gap", float(gap_S.abs().max()), at))
        return Measured(measurements)


def attended(products: tuple[float, ...], scale: str) -> Tensor:
    """S: the weights of a query whose dot products with the keys are these."""
    q_BHTK = torch.zeros(1, 1, 1, WIDTH, dtype=torch.float64)
    k_BHSK = torch.zeros(1, 1, len(products), WIDTH, dtype=torch.float64)
    q_BHTK[..., 0] = 1.0
    k_BHSK[..., 0] = torch.tensor(products, dtype=torch.float64)
    path = PATH.build("explicit", mask=MASK.build("infinity"))
    q_BHTK, factor = SCALE.build(scale, d_head=WIDTH).scaled(q_BHTK)
    weights_BHTS: Tensor = path(q_BHTK, k_BHSK, k_BHSK, factor)[1]
    return weights_BHTS.flatten()


WORDS = 10  # in the vocabulary
SURE = 1 - 1e-6
GOLDEN = (math.sqrt(5) - 1) / 2
CLOSE = 1e-9  # enough: at its least the loss is flat over 1e-8 in double precision


@MEASUREMENT.register("penalty")
class Penalty(Probe):
    """The probability p of the right word at which the loss is least, the rest spread evenly.

    −(1 − ε + ε/V) log p − (ε − ε/V) log((1 − p) / (V − 1)), which is least at p = 1 − ε + ε/V
    (Szegedy et al. 2016, 7). turning_probability: that p, found by search in the project's own
    loss; 1 where it never turns. rise: the loss at p = 1 − 10⁻⁶ less the least.
    """

    metrics: ClassVar = {
        "turning_probability": Metric(
            "probability", "lower", "probability where the loss turns", repeats="nothing"
        ),
        "rise": Metric("nats", "lower", "rise of the loss past its least", repeats="nothing"),
    }

    def measure(self, config: dict[str, Any], task: Task, device: torch.device) -> Measured:
        train = config["train"]
        smoothing, over = train["label_smoothing"], train["label_smoothing_over"]
        loss = partial(loss_at, smoothing=smoothing, over=over)
        turning = least(loss)
        rise = loss(SURE) - loss(turning)
        return Measured(
            [self.measurement("turning_probability", turning), self.measurement("rise", rise)]
        )


def loss_at(probability: float, smoothing: float, over: str) -> float:
    """In nats, of one label that has this probability."""
    others = [(1 - probability) / (WORDS - 1)] * (WORDS - 1)
    logits = torch.tensor([[probability, *others]], dtype=torch.float64).log()
    return float(cross_entropy(logits, torch.tensor([0]), smoothing, over))


def least(loss: Callable[[float], float]) -> float:
    """The minimum of a convex function on [0, 1], by golden section."""
    low, high = 0.0, 1.0
    while high - low > CLOSE:
        inner, outer = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
        if loss(inner) <= loss(outer):
            high = outer
        else:
            low = inner
    middle = (low + high) / 2
    return 1.0 if loss(1.0) <= loss(middle) else middle


END = "max_len"  # as the settings call it
PAST = 1  # tokens


@MEASUREMENT.register("reach")
class Reach(Probe):
    """1 if the model answers a sequence of max_len + 1 tokens, 0 if it names max_len in an error.

    A table of positions has no row beyond its end (Gehring et al. 2017); a formula has a value for
    any position.
    """

    metrics: ClassVar = {
        "answers_past": Metric("1", "higher", "whether it answers past max_len", "nothing")
    }

    def measure(self, config: dict[str, Any], task: Task, device: torch.device) -> Measured:
        end = config["model"].get(END)
        if end is None:
            raise ValueError("this model has no max_len to go past: choose a transformer")
        model = untrained(config, task, device)
        # A refusal at max_len itself has another reason, and is raised.
        assert answers(model, task, end, device), "no finite answer within max_len"
        try:
            past = answers(model, task, end + PAST, device)
        except ValueError as error:
            if END not in str(error):
                raise
            past = False
        return Measured([self.measurement("answers_past", float(past))])


def answers(model: Any, task: Task, length: int, device: torch.device) -> bool:
    """Whether the logits of a sequence of this length are finite."""
    with evaluating(model), torch.inference_mode():
        return bool(model(random_batch(task, length, 1).to(device)).isfinite().all())


DRAWS = 3  # of weights
LENGTH, SEQUENCES = 8, 3
DIRECT = {"path": {"name": "explicit"}, "scale": {"name": "sqrt_d_head"}}


@MEASUREMENT.register("forms")
class Forms(Probe):
    """How far a model's logits are from those of softmax(q kᵀ / √d_head) v with the same weights.

    The largest difference over several weights, in float64, of the path and the scale that its
    settings name from two matrix products with every score between them (Vaswani et al. 2017, eq.
    1); where there is padding to hide, it is hidden.
    """

    metrics: ClassVar = {
        "form_gap": Metric("nats", "lower", "largest difference of a logit", "nothing")
    }

    def measure(self, config: dict[str, Any], task: Task, device: torch.device) -> Measured:
        seeds = [config["seed"] + draw for draw in range(DRAWS)]
        gaps = [gap(*both(config, task, seed), batch_of(config, task)) for seed in seeds]
        return Measured([self.measurement("form_gap", max(gaps))])


def both(config: dict[str, Any], task: Task, seed: int) -> tuple[Any, Any]:
    """The model, and a model with its weights that computes the formula; both on the CPU."""
    written = resolve(config["model"])
    own = build(written, task.source_size, task.target_size, seed).double().eval()
    if not any(isinstance(module, Path) for module in own.modules()):
        raise ValueError("this model has no attention to compute: choose a transformer with it")
    direct = build({**written, **DIRECT}, task.source_size, task.target_size, None).double().eval()
    weights = own.state_dict()
    if weights.keys() != direct.state_dict().keys():
        raise ValueError("a scale with weights is not that of the formula: choose a fixed one")
    direct.load_state_dict(weights)
    return own, direct


@torch.inference_mode()
def gap(own: Any, direct: Any, batch: Batch) -> float:
    """The largest difference of a logit at a real token."""
    difference = (own(batch) - direct(batch)).abs()
    if batch.labels.dim() == 2 and batch.lengths is not None:
        at_T = torch.arange(batch.labels.shape[1])
        difference = difference[at_T < batch.lengths[:, None]]
    return float(difference.max())


def batch_of(config: dict[str, Any], task: Task) -> Batch:
    """Random tokens, and a sequence of each length from the longest downwards."""
    batch = random_batch(task, min(LENGTH, config["model"].get("max_len", LENGTH)), SEQUENCES)

    def falling(x_BT: Tensor | None) -> Tensor | None:
        if x_BT is None:
            return None
        return (x_BT.shape[1] - torch.arange(len(x_BT))).clamp(min=1)

    return replace(batch, lengths=falling(batch.inputs), source_lengths=falling(batch.source))


OFFSETS = (1, 4, 16)
TIMES = 8  # as many pairs as dimensions: with as few as dimensions, a map fits anything


@MEASUREMENT.register("offset")
class Offset(Probe):
    """The residual of the best linear map M from the vector at pos to that at pos + k.

    min over M of ‖P M − P₊ₖ‖ / ‖P₊ₖ‖, without an intercept, over eight times as many positions as
    dimensions. Sines and cosines leave nothing: M turns each pair by k / base^(2i/w) (Vaswani et
    al. 2017, 3.5). A stack has a scheme of its own; of several the largest residual counts.
    """

    metrics: ClassVar = {
        "offset_residual": Metric("1", "lower", "what no linear map explains", "nothing")
    }

    def measure(self, config: dict[str, Any], task: Task, device: torch.device) -> Measured:
        # On the CPU, since not every device has float64.
        model = untrained(config, task)
        schemes = [module for module in model.modules() if isinstance(module, InputScheme)]
        if not schemes:
            raise ValueError(
                "this model has no vectors of positions at its input: choose model.position "
                "sinusoidal, learned, index or binary"
            )
        found = [vectors(scheme) for scheme in schemes]
        measurements = []
        for offset in OFFSETS:
            worst = max(residual(p_TW, offset) for p_TW in found)
            measurements.append(self.measurement("offset_residual", worst, {"offset": offset}))
        return Measured(measurements)


@torch.inference_mode()
def vectors(scheme: InputScheme) -> Tensor:
    """T W: of as many positions as all offsets need."""
    width = scheme.double().vectors(torch.arange(1)).shape[1]
    needed = TIMES * width + max(OFFSETS)
    if scheme.reach is not None and scheme.reach < needed:
        raise ValueError(
            f"positions of {width} dimensions that end at max_len={scheme.reach} are too few to "
            f"distinguish a map from a table: set model.max_len to at least {needed}"
        )
    return scheme.vectors(torch.arange(needed)).double()


@torch.inference_mode()
def residual(p_TW: Tensor, offset: int) -> float:
    """The relative residual of least squares; gelsd copes with the low rank of slow sinusoids."""
    pairs = TIMES * p_TW.shape[1]
    here_TW, there_TW = p_TW[:pairs], p_TW[offset : offset + pairs]
    map_WW = torch.linalg.lstsq(here_TW, there_TW, driver="gelsd").solution
    return float((here_TW @ map_WW - there_TW).norm() / there_TW.norm())
