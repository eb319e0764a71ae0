"""Importance, pruning and divergence of attention heads.

B: sequences, H: heads of a layer, T: queries, S: keys, K: d_head.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from functools import cache
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ablations.measurement import MEASUREMENT, Evaluation, Measured, Metric, Place
from ablations.store.record import Measurement
from ablations.tasks.batching import some, summed_loss
from ablations.tasks.task import Task
from model.attention import Explicit, Infinity, attention
from model.batch import Batch, cross_entropy, positions
from model.init import INIT, initialise
from model.layers import evaluating, hooked
from model.mixers.attention import Heads

TOKENS = 8192  # read of each split, about, with padding
SHARES = (0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
ORDERS = 3  # at random
DRAWS = 4  # of initial weights

Head = tuple[str, int]  # the name of its layer, and its number there
Layers = Mapping[str, Heads]


@MEASUREMENT.register("heads")
class HeadsNeeded(Evaluation):
    """How much the model loses without a head, and how much the heads of a layer differ.

    head_importance: the mean over sequences of valid of |∂loss / ∂mask|, where each head is
    multiplied by a mask of 1 (Michel et al. 2019, eq. 2, without their scaling by layer).
    pruned_ratio: perplexity without a share of all heads over that with all, without retraining;
    the least important first, or at random (the geometric mean of three orders).
    head_divergence: Jensen-Shannon, between the weights of two heads of a layer for one query: 0
    equal, 1 disjoint; the mean over pairs and queries, then over layers.

    All read every n-th sequence of valid and of test, about 8192 tokens.
    """

    metrics: ClassVar = {
        "pruned_ratio": Metric("1", "lower", "perplexity without heads, over that with all"),
        "head_divergence": Metric("bits", "higher", "divergence between heads"),
        "divergence_ratio": Metric("1", "higher", "divergence between heads, over that at first"),
    }

    def measure(self, model: nn.Module, task: Task, device: torch.device, step: int) -> Measured:
        at: dict[str, float | str] = {"step": step}
        layers = {
            name: module for name, module in model.named_modules() if isinstance(module, Heads)
        }
        if not layers:
            reason = "the model has no attention heads: choose model.mixer=attention"
            return self.nothing(at, reason)
        valid, test = (
            [each.to(device) for each in some(task.evaluation_batches(split), TOKENS)]
            for split in ("valid", "test")
        )
        importance = importances(model, layers, valid)
        whole = nats(model, layers, test)
        if not all(map(math.isfinite, (whole, *importance.values()))):
            return self.nothing(at, "the model's loss is not finite")

        @cache
        def lost(removed: frozenset[Head]) -> float:
            return nats(model, layers, test, removed) - whole

        heads = list(importance)
        ranked = sorted(heads, key=lambda head: importance[head])
        orders = {"importance": [ranked], "random": [_shuffled(heads, n) for n in range(ORDERS)]}
        measurements = [_importance(layers, importance, at)]
        for by, each in orders.items():
            for share in SHARES:
                number = math.floor(share * len(heads) + 0.5)
                logs = [lost(frozenset(order[:number])) for order in each]
                here = {**at, "removed": share, "by": by}
                ratio = _exp(sum(logs) / len(logs))
                measurements.append(self.measurement("pruned_ratio", ratio, here))
        return Measured([*measurements, *self._divergences(model, test, at)])

    def nothing(self, at: Place, reason: str) -> Measured:
        importance = Measurement("head_importance", "nats", None, "valid", dict(at), reason=reason)
        return Measured([importance, *super().nothing(at, reason).measurements])

    def _divergences(
        self, model: nn.Module, batches: Sequence[Batch], at: dict[str, float | str]
    ) -> list[Measurement]:
        found = {"trained": divergence(model, batches), "first": first_divergence(model, batches)}
        trained, first = found.values()
        reason = "no layer has more than one head" if trained is None else None
        measurements = [
            self.measurement("head_divergence", bits, {**at, "weights": word}, reason=reason)
            for word, bits in found.items()
        ]
        ratio = trained / first if trained is not None and first else None
        if ratio is None:
            reason = reason or "at first all heads of a layer are equal"
        return [*measurements, self.measurement("divergence_ratio", ratio, at, reason=reason)]


def _importance(
    layers: Layers, importance: Mapping[Head, float], at: dict[str, float | str]
) -> Measurement:
    most = max(layer.n_heads for layer in layers.values())
    table = [[importance.get((name, head)) for head in range(most)] for name in layers]
    axes: dict[str, list[Any]] = {"layer": list(layers), "head": list(range(most))}
    return Measurement("head_importance", "nats", None, "valid", at, axes=axes, values=table)


@contextmanager
def masked(layers: Layers, masks: Mapping[str, Tensor]) -> Iterator[None]:
    """Multiply the output of each head by its mask, B H or 1 H, in the block."""
    by_path: dict[nn.Module, Tensor] = {layers[name].path: mask for name, mask in masks.items()}

    def times(path: nn.Module, given: Any, answer: tuple[Tensor, Tensor | None]) -> Any:
        y_BHTK, weights = answer  # of a window, T is blocks and their queries
        mask_BH = by_path[path]
        mask = mask_BH.reshape(*mask_BH.shape, *[1] * (y_BHTK.dim() - 2))
        return y_BHTK * mask.to(y_BHTK.dtype), weights

    with hooked(by_path, times):
        yield


def importances(model: nn.Module, layers: Layers, batches: Sequence[Batch]) -> dict[Head, float]:
    """Head → mean over sequences of |∂loss / ∂mask|."""
    found: dict[Head, float] = defaultdict(float)
    sequences = sum(len(batch.labels) for batch in batches)
    for batch in batches:
        shapes = {name: (len(batch.labels), layer.n_heads) for name, layer in layers.items()}
        masks = {
            name: torch.ones(shape, device=batch.labels.device, requires_grad=True)
            for name, shape in shapes.items()
        }
        with evaluating(model), masked(layers, masks):
            loss = cross_entropy(model(batch), batch.labels)
        for name, slope_BH in zip(masks, torch.autograd.grad(loss, [*masks.values()]), strict=True):
            for head, total in enumerate(slope_BH.double().abs().sum(0).tolist()):
                found[name, head] += total / sequences
    return dict(found)


@torch.inference_mode()
def nats(
    model: nn.Module, layers: Layers, batches: Sequence[Batch], removed: Iterable[Head] = ()
) -> float:
    """The loss per label, without these heads."""
    device = batches[0].labels.device
    masks: dict[str, Tensor] = {}
    for name, head in removed:
        masks.setdefault(name, torch.ones(1, layers[name].n_heads, device=device))[0, head] = 0
    with masked(layers, masks):
        return summed_loss(model, batches, device) / sum(batch.tokens for batch in batches)


def unfused(model: nn.Module) -> nn.Module:
    """A copy of the model on the explicit path, which has weights to show."""
    shown = deepcopy(model)
    for module in shown.modules():
        if isinstance(module, Heads):
            module.path = Explicit(getattr(module.path, "mask", Infinity()))
    return shown


def first_divergence(model: nn.Module, batches: Sequence[Batch]) -> float | None:
    """The mean over several draws of initial weights, by the rule that every base has."""
    fresh, drawn = deepcopy(model), []
    for seed in range(DRAWS):
        initialise(fresh, INIT.build("xavier"), seed)
        drawn.append(divergence(fresh, batches))
    known = [each for each in drawn if each is not None]
    return sum(known) / len(known) if known else None


def divergence(model: nn.Module, batches: Sequence[Batch]) -> float | None:
    """Bits between two heads, over all layers that have two."""
    shown = unfused(model)
    bits: dict[str, float] = defaultdict(float)
    queries: dict[str, int] = defaultdict(int)
    for batch in batches:
        for name, weights_BHTS in attention(shown, batch).items():
            if weights_BHTS.shape[1] > 1:
                apart_Q = apart(weights_BHTS)[_real(batch, name)]
                bits[name] += float(apart_Q.sum())
                queries[name] += len(apart_Q)
    return sum(bits[name] / queries[name] for name in bits) / len(bits) if bits else None


def apart(weights_BHTS: Tensor) -> Tensor:
    """B T: the mean over pairs of heads of H(½p + ½q) − ½H(p) − ½H(q), in bits (Lin 1991)."""
    p_BHTS = weights_BHTS.double()
    entropy_BHT = torch.special.entr(p_BHTS).sum(-1)
    H = p_BHTS.shape[1]
    total_BT = torch.zeros_like(entropy_BHT[:, 0])
    for offset in range(1, H):
        both = (p_BHTS[:, offset:] + p_BHTS[:, :-offset]) / 2
        own = (entropy_BHT[:, offset:] + entropy_BHT[:, :-offset]) / 2
        total_BT += (torch.special.entr(both).sum(-1) - own).sum(1)
    return total_BT / (H * (H - 1) / 2) / math.log(2)


def _real(batch: Batch, layer: str) -> Tensor:
    """B T: which queries of a layer are not padding."""
    of_source = layer.startswith("encoder")
    tokens_BT = batch.source if of_source else batch.inputs
    lengths_B = batch.source_lengths if of_source else batch.lengths
    assert tokens_BT is not None
    if lengths_B is None:
        return torch.ones_like(tokens_BT, dtype=torch.bool)
    return positions(tokens_BT.shape[1], tokens_BT) < lengths_B[:, None]


def _shuffled(heads: Sequence[Head], seed: int) -> list[Head]:
    order = torch.randperm(len(heads), generator=torch.Generator().manual_seed(seed))
    return [heads[index] for index in order.tolist()]


def _exp(x: float) -> float:
    """exp(x), or ∞ where a float would overflow."""
    return float(torch.tensor(x, dtype=torch.float64).exp())
