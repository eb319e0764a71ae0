"""The equations, one number at a time: plain Python, double precision, nothing of the model.

A vector is a list of numbers, a sequence or a matrix a list of vectors.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

Vector = list[float]
Matrix = list[Vector]


def dot(a: Vector, b: Vector) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def add(a: Vector, b: Vector) -> Vector:
    return [x + y for x, y in zip(a, b, strict=True)]


def linear(x: Vector, weight: Matrix, bias: Vector | None = None) -> Vector:
    y = [dot(row, x) for row in weight]
    return y if bias is None else add(y, bias)


def softmax(scores: Vector) -> Vector:
    powers = [math.exp(score) for score in scores]
    return [power / sum(powers) for power in powers]


def layer_norm(x: Vector, gain: Vector, bias: Vector, eps: float = 1e-5) -> Vector:
    mean = sum(x) / len(x)
    variance = sum((v - mean) ** 2 for v in x) / len(x)
    scaled = [(v - mean) / math.sqrt(variance + eps) for v in x]
    return [g * v + b for g, v, b in zip(gain, scaled, bias, strict=True)]


def rms_norm(x: Vector, gain: Vector, eps: float) -> Vector:
    size = math.sqrt(sum(v * v for v in x) / len(x) + eps)
    return [g * v / size for g, v in zip(gain, x, strict=True)]


def relu(x: float) -> float:
    return x if x > 0 else 0.0


def gelu(x: float) -> float:
    return x * (1 + math.erf(x / math.sqrt(2))) / 2


def gelu_tanh(x: float) -> float:
    return x / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def silu(x: float) -> float:
    return x * sigmoid(x)


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def sinusoid(position: int, width: int, base: float = 10_000.0) -> Vector:
    """sin at even features and cos at odd ones, a pair of features to each frequency."""
    vector = []
    for feature in range(width):
        angle = position / base ** (2 * (feature // 2) / width)
        vector.append(math.cos(angle) if feature % 2 else math.sin(angle))
    return vector


def attention(
    queries: Matrix,
    keys: Matrix,
    values: Matrix,
    n_heads: int,
    may_see: Callable[[int, int], bool],
    scale: float | list[float] | None = None,
    n_kv_heads: int | None = None,
    hidden: float | None = None,
) -> Matrix:
    """Each head on its own slice of the features; the heads' answers side by side.

    With fewer heads of keys and values, neighbouring heads of queries read the same one. `hidden`
    is the score of what may not be seen; None: it has no weight at all.
    """
    width = len(queries[0]) // n_heads
    scale = 1 / math.sqrt(width) if scale is None else scale
    scales = scale if isinstance(scale, list) else [scale] * n_heads
    shared_by = n_heads // (n_kv_heads or n_heads)
    answers: Matrix = []
    for t, query in enumerate(queries):
        seen = [s for s in range(len(keys)) if may_see(t, s) or hidden is not None]
        answer: Vector = []
        for head in range(n_heads):
            own = slice(head * width, (head + 1) * width)
            read = slice(head // shared_by * width, (head // shared_by + 1) * width)
            scores = [
                scales[head] * dot(query[own], keys[s][read]) if may_see(t, s) else hidden
                for s in seen
            ]
            weights = softmax(scores)
            for feature in range(width):
                column = [values[s][read][feature] for s in seen]
                answer.append(dot(weights, column))
        answers.append(answer)
    return answers


def cross_entropy(logits: Vector, label: int, smoothing: float = 0.0, over: str = "all") -> float:
    """Against the label's distribution: 1 − smoothing on it, smoothing spread over the words."""
    logs = [math.log(p) for p in softmax(logits)]
    words = [word for word in range(len(logs)) if over == "all" or word != label]
    target = [smoothing / len(words) if word in words else 0.0 for word in range(len(logs))]
    target[label] += 1 - smoothing
    return -dot(target, logs)


M = TypeVar("M", bound=nn.Module)


def randomised(module: M, seed: int = 0, std: float = 0.4) -> M:
    """In double precision and evaluation mode, every parameter random: no gain of one, no zero."""
    generator = torch.Generator().manual_seed(seed)
    module.double().eval()
    with torch.no_grad():
        for parameter in module.parameters():
            drawn = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.copy_(drawn * std)
    return module


def random(*shape: int, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def affine(module: Any) -> tuple[Matrix, Vector | None]:
    """Weight and bias of a projection or a norm."""
    return module.weight.tolist(), None if module.bias is None else module.bias.tolist()


def assert_equals(actual: Tensor, by_hand: Any) -> None:
    """To twelve digits or so: both sides are in double precision."""
    expected = torch.as_tensor(by_hand, dtype=torch.float64)
    torch.testing.assert_close(actual.detach(), expected.detach(), rtol=1e-10, atol=1e-10)


class _Calls(TorchFunctionMode):
    count = 0

    def __torch_function__(
        self, function: Any, types: Any, arguments: Any = (), options: Any = None
    ) -> Any:
        self.count += 1
        return function(*arguments, **(options or {}))


def calls(run: Callable[[], Any]) -> int:
    """How often Python asks the library for something while this runs."""
    with _Calls() as asked:
        run()
    return asked.count
