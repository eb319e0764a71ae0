"""Costs of a model: parameters, operations and memory, each by kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from types import FunctionType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils.flop_counter import FlopCounterMode

from model.attention import Explicit, Loop, RowByRow
from model.batch import Batch
from model.cells import CellState, Layer
from model.config import Registry
from model.embedding import Embedding
from model.feedforward import FEEDFORWARD
from model.heads import Head
from model.layers import hooked, keeping_modes
from model.positions import Position
from model.residual import NORM, Residual
from model.rnn import MLP


@contextmanager
def following(
    model: nn.Module,
    kinds: Mapping[nn.Module, str],
    leaving: Callable[[str], None],
    entering: Callable[[nn.Module, Any], None] = lambda module, given: None,
) -> Iterator[list[str]]:
    """The kinds of the running modules, innermost last; `leaving` gets the last as it changes."""
    at_work = [kinds[model]]

    def enter(module: nn.Module, given: tuple[Any, ...]) -> None:
        leaving(at_work[-1])
        at_work.append(kinds[module])
        entering(module, given)

    def leave(module: nn.Module, given: tuple[Any, ...], answer: Any) -> None:
        leaving(at_work.pop())

    with ExitStack() as exits, hooked(model.modules(), leave):
        for module in model.modules():
            exits.callback(module.register_forward_pre_hook(enter).remove)
        yield at_work


KINDS = (
    "embedding", "positions", "projections", "mixing", "feedforward", "norms", "head", "other",
)  # fmt: skip


@dataclass(frozen=True)
class Cost:
    """The costs of one forward pass over one sequence, or over one source and one target."""

    parameters: dict[str, int]
    """By kind; a tied weight counts once, under its first name."""
    flops: dict[str, int]
    """By kind: matrix products and attention, a multiply and an add each; causal counts as full."""
    tokens: int
    """Read, source and target together."""
    kept_bytes: int
    """Saved for the backward pass, up to the logits and without the weights."""

    @property
    def flops_per_token(self) -> float:
        return sum(self.flops.values()) / self.tokens


def parameters(model: nn.Module) -> int:
    """Number of trained parameters; a tied weight counts once."""
    return sum(parameter.numel() for parameter in model.parameters())


def count(model: nn.Module, source_length: int | None, length: int) -> Cost:
    """All costs of a model on the meta device.

    Projections are the `nn.Linear` layers that a mixer applies to its tokens; mixing is all else
    in a mixer, a convolution's taps and a recurrence's gates included. Attention on the fused path
    keeps what a fused kernel keeps, a recurrent kernel what its steps would.
    """
    inputs = torch.zeros(1, length, dtype=torch.long, device="meta")
    source = None
    if source_length is not None:
        source = torch.zeros(1, source_length, dtype=torch.long, device="meta")
    batch = Batch(labels=inputs, inputs=inputs, source=source)
    kinds = kinds_of(model)
    meter = Meter(model, kinds)
    meter.run(batch)
    for module in kinds.keys() - meter.called:
        if kinds[module] == "projections":
            kinds[module] = "mixing"  # a convolution reads its taps itself
    sizes: Counter[str] = Counter()
    for name, parameter in model.named_parameters():
        sizes[kinds[model.get_submodule(name.rpartition(".")[0])]] += parameter.numel()
    return Cost(
        parameters={kind: sizes[kind] for kind in KINDS},
        flops={kind: meter.flops[kind] for kind in KINDS},
        tokens=meter.tokens or length + (source_length or 0),
        kept_bytes=meter.kept,
    )


def kinds_of(model: nn.Module) -> dict[nn.Module, str]:
    """Module → the kind of its weights and products: mixing, unless it belongs to another."""
    owners = (
        (Embedding, "embedding"),
        (Position, "positions"),
        (_classes(NORM), "norms"),
        (_classes(FEEDFORWARD), "feedforward"),
        (Head, "head"),
        (Residual, "other"),
    )
    found: dict[nn.Module, str] = {}

    def walk(module: nn.Module, kind: str) -> None:
        kind = next((word for owner, word in owners if isinstance(module, owner)), kind)
        if kind == "mixing" and isinstance(module, nn.Linear):
            kind = "projections"
        found.setdefault(module, kind)
        for below in module.children():
            walk(below, kind)

    walk(model, "mixing")
    for module in model.modules():
        if isinstance(module, MLP):
            found[module.weigh] = "mixing"  # of pairs of tokens, not of tokens
    return found


def _classes(registry: Registry) -> tuple[type, ...]:
    return tuple(each for each in registry.components.values() if isinstance(each, type))


class Meter:
    """Counts while a model runs, each product under the kind of the innermost module at work."""

    def __init__(self, model: nn.Module, kinds: Mapping[nn.Module, str]) -> None:
        self.flops: Counter[str] = Counter()  # by kind
        self.kept = 0  # bytes that wait for the backward pass, without weights
        self.tokens = 0  # read
        self.called: set[nn.Module] = set()
        self._model, self._kinds = model, kinds
        self._counter = FlopCounterMode(display=False)
        self._counted = 0  # of the counter's total
        self._at_work: list[str] = []
        self._times = 1
        stored = [tensor.untyped_storage() for tensor in (*model.parameters(), *model.buffers())]
        self._seen = {storage._cdata: storage for storage in stored}

    def run(self, batch: Batch) -> None:
        with ExitStack() as exits:
            exits.enter_context(keeping_modes(self._model))
            for module in self._model.modules():
                if isinstance(module, Layer):
                    _replace(exits, module, "run", partial(self._run_steps, module))
                if isinstance(module, RowByRow | Loop):  # the same products, one by one
                    for name in ("scores", "mix"):
                        _replace(exits, module, name, partial(getattr(Explicit, name), module))
            following_all = following(self._model, self._kinds, self._flush, self._enter)
            self._at_work = exits.enter_context(following_all)
            exits.enter_context(self._counter)
            exits.enter_context(_FusedAttention())
            keeping = torch.autograd.graph.saved_tensors_hooks(self._keep, lambda tensor: tensor)
            exits.enter_context(keeping)
            exits.enter_context(torch.enable_grad())
            self._model.train()(batch)
            self._flush(self._at_work[-1])

    def _run_steps(self, layer: Layer, x_BTD: Tensor, state: CellState) -> tuple[Tensor, CellState]:
        """As `Layer.run_steps`, counting the second step for all that follow."""
        input_BTG = F.linear(x_BTD, layer.weight_ih_l0, layer.bias_ih_l0)
        length = x_BTD.shape[1]
        for times in (1, length - 1):
            with self._repeated(times):
                recalled_BG = F.linear(state[0], layer.weight_hh_l0, layer.bias_hh_l0)
                state = layer.step(input_BTG[:, 0], recalled_BG, state)
        return state[0][:, None].expand(-1, length, -1).clone(), state

    @contextmanager
    def _repeated(self, times: int) -> Iterator[None]:
        self._flush(self._at_work[-1])
        before, self._times = self._times, self._times * times
        yield
        self._flush(self._at_work[-1])
        self._times = before

    def _flush(self, kind: str) -> None:
        total = self._counter.get_total_flops()
        self.flops[kind] += (total - self._counted) * self._times
        self._counted = total

    def _enter(self, module: nn.Module, given: tuple[Any, ...]) -> None:
        self.called.add(module)
        if isinstance(module, Embedding):
            self.tokens += given[0].numel()

    def _keep(self, tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in self._seen:
            self._seen[storage._cdata] = storage  # held, so that its number is not given again
            self.kept += storage.nbytes() * self._times
        return tensor


def signature(module: nn.Module) -> Any:
    """Equal for modules that do the same work: their types, settings and shapes."""
    library = vars(nn.Module()).keys()
    return [
        (
            name,
            type(below),
            {key: _setting(value) for key, value in vars(below).items() if key not in library},
            {key: value.shape for key, value in below.named_parameters(recurse=False)},
            {key: value.shape for key, value in below.named_buffers(recurse=False)},
        )
        for name, below in module.named_modules()
    ]


def _setting(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_setting(item) for item in value]
    if isinstance(value, dict):
        return {key: _setting(item) for key, item in value.items()}
    plain = int | float | str | None | FunctionType
    return value if isinstance(value, plain) else type(value)


def _replace(exits: ExitStack, module: nn.Module, name: str, method: Callable[..., Any]) -> None:
    """Replace a method of one instance until `exits` closes."""
    vars(module)[name] = method
    exits.callback(vars(module).pop, name)


class _FusedAttention(TorchFunctionMode):
    """Fused attention saves what a fused kernel saves: on meta, torch would save the scores."""

    def __torch_function__(
        self, function: Any, types: Any, arguments: Any = (), options: Any = None
    ) -> Any:
        options = options or {}
        if function is F.scaled_dot_product_attention:
            return _Kernel.apply(*[*arguments, options.get("attn_mask")][:4])
        return function(*arguments, **options)


class _Kernel(torch.autograd.Function):
    """Keeps queries, keys, values, the answer, a mask, and one log-sum-exp for each query."""

    @staticmethod
    def forward(
        context: Any, q_BHTK: Tensor, k_BHSK: Tensor, v_BHSK: Tensor, mask: Tensor | None
    ) -> Tensor:
        q_BHTK @ k_BHSK.transpose(-2, -1) @ v_BHSK  # for the count alone
        y_BHTK = torch.empty_like(q_BHTK.transpose(1, 2)).transpose(1, 2)  # as the kernels store it
        sums_BHT = torch.empty_like(q_BHTK[..., 0], dtype=torch.float32)
        context.save_for_backward(q_BHTK, k_BHSK, v_BHSK, mask, y_BHTK, sums_BHT)
        return y_BHTK
