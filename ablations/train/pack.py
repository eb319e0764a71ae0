"""Trainings that differ only in the seed, as one model with a replica for each.

A small model leaves an accelerator idle between its kernels; P of them in one do not. Replica i is,
to rounding, what training i is alone: its initial weights, batches, loss, norm, clipping, choice of
weights and outcome are its own, and a replica that ends in NaN affects no other.

P: replicas, B: sequences, T: target positions, S: source positions.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice, zip_longest

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, vmap

from ablations.signals import Stopped
from ablations.tasks.task import Task
from ablations.train.checkpoint import Average, named, restore
from ablations.train.config import OPTIMIZER, TrainConfig
from ablations.train.loop import CURVE_POINTS, Trainer, Training, score_step, spread
from model.attention import Explicit, Fused, Infinity
from model.batch import IGNORE, PAD, Batch, cross_entropy
from model.cells import Layer
from model.embedding import Embedding
from model.layers import evaluating
from model.mixers.attention import Heads

_LEAST = 1e-6  # added to a norm before it divides, as torch's own clipping does
_FILL = {"labels": IGNORE, "inputs": PAD, "source": PAD, "segments": 0}
_LENGTHS = {"lengths": "inputs", "source_lengths": "source"}


class Pack:
    """The state of models that are trained together."""

    def __init__(
        self,
        models: Sequence[nn.Module],
        task: Task,
        config: TrainConfig,
        seeds: Sequence[int],
        device: torch.device,
    ) -> None:
        self.task, self.config, self.device = task, config, device
        alone = replace(config, average=None)  # this class averages all replicas at once
        pairs = zip(models, seeds, strict=True)
        self.replicas = [Trainer(model, task, alone, seed, device) for model, seed in pairs]
        self.active = list(self.replicas)  # those whose loss is a number
        self.model = unfuse_for_vmap(copy.deepcopy(models[0]))
        # Built before the weights are stacked: their dimensions decide which of them decay.
        self.optimizer = OPTIMIZER.build(config.optimizer, parameters=self.model.parameters())
        _stack(self.model, models)
        self.places = _places(self.model)
        self.average = Average(self.model, config.average)
        for replica in self.replicas:
            replica.optimizer = self.optimizer  # whose rate it notes
        self.step = 0

    def run(
        self, report: Callable[[float, str], None], is_stopping: Callable[[], bool]
    ) -> list[Training]:
        """Train all from the start; each model ends with its chosen weights."""
        steps = self.config.steps
        evaluate_at, log_at = spread(steps, self.config.evaluations), spread(steps, CURVE_POINTS)
        self.evaluate()
        self.model.train()
        streams = [self.task.steps(replica.seed, self.config.budget) for replica in self.replicas]
        for given in islice(zip(*streams, strict=True), steps):
            if is_stopping():
                raise Stopped
            self.step += 1
            norm_P = self.learn(given)
            if self.step in log_at:
                self.log(norm_P)
                report(self.step / steps, f"{len(self.active)} seeds")
            if not self.active:
                break
            if self.step in evaluate_at:
                self.evaluate()
            if self.step == score_step(steps):
                self.each(Trainer.score)
        self.each(Trainer.finish)  # each is judged as a training alone is
        return [replica.training for replica in self.replicas]

    def learn(self, given: Sequence[Sequence[Batch]]) -> Tensor:
        """One step of every replica on its own micro-batches; the norms of their gradients."""
        first = self.replicas[0]
        for group, peak in zip(self.optimizer.param_groups, first.peaks, strict=True):
            group["lr"] = peak * first.schedule.share(self.step)
        self.optimizer.zero_grad()
        tokens_P = torch.tensor([sum(batch.tokens for batch in batches) for batches in given])
        tokens_P = tokens_P.to(self.device)
        total_P = torch.zeros(len(self.replicas), device=self.device)
        for batches in zip_longest(*given):
            summed_P = self.losses(stacked_batches(batches), replicas=0, trains=True)
            loss_P = summed_P / tokens_P
            loss_P.sum().backward()  # no replica's loss depends on the weights of another
            total_P += loss_P.detach()
        norm_P = self.clip()
        self.optimizer.step()
        self.average.follow(self.step)
        for replica, loss in zip(self.replicas, total_P.unbind(), strict=True):
            if replica in self.active:
                replica.step = self.step
                replica.recent.append(loss)
        return norm_P

    def losses(self, tensors: Mapping[str, Tensor], replicas: int | None, trains: bool) -> Tensor:
        """P: the summed loss of each replica on its own tensors, or of all on the same (None)."""
        moved = {name: each.to(self.device, non_blocking=True) for name, each in tensors.items()}
        config = self.config if trains else None
        return vmap(partial(_loss, self.model, config), in_dims=(0, replicas))(self.places, moved)

    def clip(self) -> Tensor:
        """Clip each replica's gradient by its own norm; the norms before that."""
        gradients = [p.grad for p in self.model.parameters() if p.grad is not None]
        norms = [torch.linalg.vector_norm(g.reshape(len(g), -1), dim=1) for g in gradients]
        norm_P = torch.linalg.vector_norm(torch.stack(norms), dim=0)
        if self.config.clip is not None:
            share_P = (self.config.clip / (norm_P + _LEAST)).clamp(max=1.0)
            for gradient in gradients:
                gradient.mul_(share_P.view(-1, *[1] * (gradient.dim() - 1)))
        return norm_P

    def log(self, norm_P: Tensor) -> None:
        """A point of every replica's curves; a replica whose loss is not finite stops."""
        for replica, norm in zip(self.replicas, norm_P.unbind(), strict=True):
            if replica in self.active and not replica.log(norm, lambda *_: None):
                self.active.remove(replica)
                restore(replica.model, self.weights(replica))

    def evaluate(self) -> None:
        """The validation loss of every replica, and its best trained weights so far."""
        with self.average.applied():
            for replica, loss in zip(self.replicas, self.validate(), strict=True):
                if replica not in self.active:
                    continue
                replica.training.add("loss", "nats/token", loss, self.step, "valid")
                if self.config.select == "best" and self.step > 0 and loss < replica.best_loss:
                    replica.best, replica.best_loss = self.weights(replica), loss

    @torch.no_grad()
    def validate(self) -> list[float]:
        """Each replica's unsmoothed nats per label; all of them read every batch once."""
        batches = self.task.evaluation_batches("valid")
        with evaluating(self.model):
            each = [self.losses(_fields(batch), replicas=None, trains=False) for batch in batches]
        summed_P = torch.stack(each).cpu().double().sum(dim=0)
        return (summed_P / sum(batch.tokens for batch in batches)).tolist()

    def each(self, work: Callable[[Trainer], None]) -> None:
        """Call `work` on every active replica, with its weights in its own model."""
        with self.average.applied():
            for replica in self.active:
                restore(replica.model, self.weights(replica))
                work(replica)

    def weights(self, replica: Trainer) -> dict[str, Tensor]:
        """A copy of one replica's weights as they are now."""
        index = self.replicas.index(replica)
        return {name: stacked[index].clone() for name, stacked in named(self.model).items()}


def unfuse_for_vmap(model: nn.Module) -> nn.Module:
    """Replace library kernels, which vmap cannot batch, and drop checks, which read tokens."""
    for module in model.modules():
        if isinstance(module, Heads) and isinstance(module.path, Fused):
            module.path = Explicit(Infinity())
        elif isinstance(module, Layer):
            module.in_steps = True
        elif isinstance(module, Embedding):
            for name in ("check", "check_segments"):
                setattr(module, name, lambda *_: None)
    return model


@torch.no_grad()
def _stack(model: nn.Module, models: Sequence[nn.Module]) -> None:
    """Give the model's parameters the values of all models, stacked. The Parameters stay."""
    each = [dict(other.named_parameters()) for other in models]
    for name, parameter in model.named_parameters():
        parameter.data = torch.stack([weights[name] for weights in each])


def _places(model: nn.Module) -> dict[str, Tensor]:
    """Path → parameter, under every name of a tied weight but one name of a shared module, whose
    parameters `functional_call` could not restore otherwise."""
    return {
        f"{path}.{name}".lstrip("."): parameter
        for path, module in model.named_modules()
        for name, parameter in module.named_parameters(recurse=False)
    }


def _fields(batch: Batch) -> dict[str, Tensor]:
    return {name: value for name, value in vars(batch).items() if value is not None}


def _loss(
    model: nn.Module,
    config: TrainConfig | None,
    weights: Mapping[str, Tensor],
    tensors: Mapping[str, Tensor],
) -> Tensor:
    """The summed loss of one replica; without a config, unsmoothed and in float32."""
    batch = ReplicaBatch(**tensors)
    half = config is not None and config.precision == "bfloat16"
    with torch.autocast(batch.labels.device.type, torch.bfloat16, enabled=half):
        logits = functional_call(model, dict(weights), (batch,), tie_weights=False)
        logits = logits.float() if half else logits  # inside vmap no rule of autocast's does that
        if config is None:
            return cross_entropy(logits, batch.labels)
        return cross_entropy(
            logits, batch.labels, config.label_smoothing, config.label_smoothing_over
        )


class ReplicaBatch(Batch):
    """A batch inside vmap, where values cannot be read; it was checked before."""

    def __post_init__(self) -> None:
        pass


def stacked_batches(batches: Sequence[Batch | None]) -> dict[str, Tensor]:
    """The fields of these batches, P first, each as large as the largest; None has no rows at all.

    What is added has no label and lies beyond the lengths, so nothing is learned from it and no
    real token sees it. An added row is one token long.
    """
    some = next(batch for batch in batches if batch is not None)
    whole = [some.map(lambda tensor: tensor[:0]) if b is None else b for b in batches]
    rows = max(len(batch.labels) for batch in whole)
    found: dict[str, Tensor] = {}
    for name, fill in _FILL.items():
        if getattr(some, name) is not None:
            each = [getattr(batch, name) for batch in whole]
            longest = [max(sizes) for sizes in zip(*(t.shape[1:] for t in each), strict=True)]
            found[name] = torch.stack([_grown(t, [rows, *longest], fill) for t in each])
    for name, side in _LENGTHS.items():
        if side in found:
            width = found[side].shape[2]
            each = [_lengths(batch, name, side) for batch in whole]
            if any(bool((lengths_B < width).any()) for lengths_B in each):
                found[name] = torch.stack([_grown(lengths_B, [rows], 1) for lengths_B in each])
    return found


def _lengths(batch: Batch, name: str, side: str) -> Tensor:
    lengths_B: Tensor | None = getattr(batch, name)
    tokens_BT: Tensor = getattr(batch, side)
    return torch.full((len(tokens_BT),), tokens_BT.shape[1]) if lengths_B is None else lengths_B


def _grown(tensor: Tensor, shape: Sequence[int], fill: int) -> Tensor:
    """The tensor padded at the end of every dimension."""
    missing = [
        end
        for size, now in zip(reversed(shape), reversed(tensor.shape), strict=True)
        for end in (0, size - now)
    ]
    return F.pad(tensor, missing, value=fill) if any(missing) else tensor
