"""Untrained models: attention, residual stream, gradients and scores at initialisation.

B: sequences or draws, H: heads, T: positions or queries, S: keys, K: width of a head, D: d_model.
"""

from __future__ import annotations

import math
import statistics
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ablations.measurement import MEASUREMENT, Measured, Metric, Probe, untrained
from ablations.tasks.task import Budget, Task
from model.attention import SCALE, Scale, attention
from model.batch import BOS, EOS, Batch, cross_entropy
from model.init import INIT, initialise
from model.layers import evaluating, hooked
from model.mixers import Context
from model.transformer import Block, Stack, Transformer

SEQUENCES, SYMBOLS = 64, 16


@MEASUREMENT.register("diagonal")
class Diagonal(Probe):
    """The mean of p_tt, the weight of a token on itself, in the first block of an untrained model.

    Sequences are random and repeat no token. Chance is 1/16. The first block is the encoder's where
    there is one; no mask may hide other tokens from it.
    """

    metrics: ClassVar = {
        "diagonal_weight": Metric("probability", "lower", "weight of a token on itself")
    }

    def measure(self, config: dict[str, Any], task: Task, device: torch.device) -> Measured:
        model = untrained(config, task, device, path={"name": "explicit"})
        if not isinstance(model, Transformer):
            raise ValueError("this model has no blocks: choose a transformer")
        name = "decoder" if model.encoder is None else "encoder"
        if getattr(model, f"causal_{name}"):
            raise ValueError(f"a mask hides tokens here: choose model.causal_{name}=false")
        stack = getattr(model, name)
        tokens_BT = distinct(stack.embedding.tokens.num_embeddings, config["seed"]).to(device)
        weights = attention(model, _batch(tokens_BT, model)).get(f"{name}.blocks.0.mixer")
        if weights is None:
            raise ValueError("the first block shows no weights: choose model.mixer=attention")
        value = float(weights.diagonal(dim1=-2, dim2=-1).double().mean())
        return Measured([self.measurement("diagonal_weight", value)])


def distinct(size: int, seed: int) -> Tensor:
    """B T: tokens of a vocabulary of this size, each at most once in a sequence."""
    first = EOS + 1  # after the special tokens
    if size - first < SYMBOLS:
        raise ValueError(f"the task has {size - first} symbols: choose one with {SYMBOLS} or more")
    generator = torch.Generator().manual_seed(seed)
    orders = [torch.randperm(size - first, generator=generator) for _ in range(SEQUENCES)]
    return first + torch.stack(orders)[:, :SYMBOLS]


def _batch(tokens_BT: Tensor, model: Transformer) -> Batch:
    """A batch with these tokens as the input of the model's first stack."""
    start_BT = torch.full_like(tokens_BT[:, :1], BOS)
    if model.encoder is None:
        return Batch(tokens_BT, inputs=tokens_BT)
    return Batch(start_BT, inputs=None if model.decoder is None else start_BT, source=tokens_BT)


BATCH_TOKENS = 1024  # about


@MEASUREMENT.register("fresh")
class Fresh(Probe):
    """|block(x) − x| / |x| of an untrained block on real tokens, the mean over all blocks.

    0 is the identity (He et al. 2016); √2 is a block whose output is as long as its input and
    unrelated to it.
    """

    metrics: ClassVar = {"relative_change": Metric("1", "lower", "change by a fresh block")}

    def measure(self, config: dict[str, Any], task: Task, device: torch.device) -> Measured:
        (batch,) = next(task.steps(config["seed"], Budget(BATCH_TOKENS)))
        changes = relative_changes(untrained(config, task, device), batch.to(device))
        return Measured([self.measurement("relative_change", sum(changes) / len(changes))])


@torch.inference_mode()
def relative_changes(model: nn.Module, batch: Batch) -> list[float]:
    """The change by each block, in the order of the calls; padding does not count."""
    found: list[float] = []

    def hook(block: nn.Module, given: tuple[Any, ...], answer: tuple[Tensor, Any]) -> None:
        x_BTD: Tensor = given[0]
        context: Context = given[1]
        change_BTD = answer[0] - x_BTD
        if context.real is not None:
            x_BTD, change_BTD = x_BTD[context.real], change_BTD[context.real]
        found.append(float(change_BTD.norm() / x_BTD.norm()))

    blocks = [module for module in model.modules() if isinstance(module, Block)]
    if not blocks:
        raise ValueError("this model has no blocks: choose a transformer")
    with hooked(blocks, hook), evaluating(model):
        model(batch)
    return found


DEPTHS = (2, 4, 8, 16, 32)
GRADIENT_TOKENS = 512  # of the batch, about
DRAWS = 4  # of initial weights, which matter more than the batch
APART = 1_000_000  # so that no trial draws the weights of another


@MEASUREMENT.register("gradients")
class Gradients(Probe):
    """|∂loss/∂W₂| at initialisation, W₂ the second matrix of a block's feed-forward.

    last_gradient: of the last block, which by Xiong et al. 2020 (3.3) is of the order of 1 with
    post-norm and of 1/√depth with pre-norm. The loss is that of training, on one batch and without
    dropout; an encoder-decoder is measured in its decoder. Geometric mean over several initial
    weights.
    """

    metrics: ClassVar = {
        "last_gradient": Metric("nats/label", "lower", "gradient norm in the last block")
    }

    def measure(self, config: dict[str, Any], task: Task, device: torch.device) -> Measured:
        (batch,) = next(task.steps(config["seed"], Budget(GRADIENT_TOKENS)))
        smoothing = {
            "smoothing": config["train"]["label_smoothing"],
            "over": config["train"]["label_smoothing_over"],
        }
        measurements = []
        for depth in DEPTHS:
            drawn = []
            for draw in range(DRAWS):
                seeded = {**config, "seed": config["seed"] + draw * APART}
                model = untrained(seeded, task, device, depth=depth)
                drawn.append(gradient_norms(model, batch.to(device), **smoothing)[-1])
            last = statistics.geometric_mean(drawn)
            measurements.append(self.measurement("last_gradient", last, {"depth": depth}))
        return Measured(measurements)


def gradient_norms(model: nn.Module, batch: Batch, **smoothing: Any) -> list[float]:
    """The gradient norm of each block's second matrix, from the first block to the last."""
    weights = second_matrices(model)
    with evaluating(model):
        loss = cross_entropy(model(batch), batch.labels, **smoothing) / batch.tokens
    return [float(gradient.norm()) for gradient in torch.autograd.grad(loss, weights)]


def second_matrices(model: nn.Module) -> list[Tensor]:
    """One for each block of the stack that the head reads."""
    stacks = [module for module in model.modules() if isinstance(module, Stack)]
    if not stacks:
        raise ValueError("this model has no stack of blocks: choose a transformer")
    downs = [getattr(block.feedforward, "down", None) for block in stacks[-1].blocks]
    if not all(isinstance(down, nn.Linear) for down in downs):
        raise ValueError("these blocks have no feed-forward: choose another model.feedforward")
    return [down.weight for down in downs if down is not None]


WIDTHS = (4, 16, 64, 256, 1024)
SAMPLES, QUERIES, KEYS = 16, 64, 64


@MEASUREMENT.register("scores")
class Scores(Probe):
    """Dot products of queries and keys from N(0, 1), under the model's own scale.

    score_variance: of qᵀk · scale, which is d_head · scale² (Vaswani et al. 2017, 3.2.1).
    score_entropy: −Σ p log p of the softmax over the keys, as a share of log S.
    softmax_gradient: |diag(p) − p pᵀ|, what is left of a gradient that goes through the softmax.
    """

    metrics: ClassVar = {
        "score_variance": Metric("1", "lower", "variance of the scores"),
        "score_entropy": Metric("1", "higher", "entropy of the weights over log of the keys"),
        "softmax_gradient": Metric("1", "higher", "norm of the softmax's Jacobian"),
    }

    def measure(self, config: dict[str, Any], task: Task, device: torch.device) -> Measured:
        generator = torch.Generator().manual_seed(config["seed"])
        measurements = []
        for width in WIDTHS:
            scores_BHTS = drawn_scores(config["model"], width, config["seed"], generator)
            weights_BHTS = scores_BHTS.softmax(-1)
            values = (scores_BHTS.var(), entropy_share(weights_BHTS), jacobian_norm(weights_BHTS))
            measurements += [
                self.measurement(name, float(value.mean()), {"d_head": width})
                for name, value in zip(self.metrics, values, strict=True)
            ]
        return Measured(measurements)


@torch.inference_mode()
def drawn_scores(
    model: dict[str, Any], width: int, seed: int, generator: torch.Generator
) -> Tensor:
    """B H T S: the scores of heads of this width."""
    if "scale" not in model:
        raise ValueError("this model has no scale of scores: choose a transformer")
    heads = model["n_heads"]
    scale: Scale = SCALE.build(
        model["scale"], d_head=width, n_heads=heads, d_model=heads * width, depth=model["depth"]
    )
    initialise(scale, INIT.build(model["init"]), seed)
    q_BHTK = torch.randn(SAMPLES, heads, QUERIES, width, generator=generator)
    k_BHSK = torch.randn(SAMPLES, heads, KEYS, width, generator=generator)
    q_BHTK, factor = scale.scaled(q_BHTK)
    return (q_BHTK @ k_BHSK.transpose(-2, -1)).double() * factor


def entropy_share(weights_BHTS: Tensor) -> Tensor:
    """B H T: 1 where all keys weigh the same, 0 where one has all the weight."""
    return torch.special.entr(weights_BHTS).sum(-1) / math.log(weights_BHTS.shape[-1])


def jacobian_norm(weights_BHTS: Tensor) -> Tensor:
    """B H T: |diag(p) − p pᵀ|, without the matrix: Σ p² − 2 Σ p³ + (Σ p²)² is its square."""
    squares, cubes = weights_BHTS.square().sum(-1), weights_BHTS.pow(3).sum(-1)
    return (squares - 2 * cubes + squares.square()).clamp(min=0).sqrt()
