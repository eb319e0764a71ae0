"""What slides print and derive, beside sums by hand, formulas and the papers' own numbers."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from small_models import PAIRS, TEXT, transformer
from torch import Tensor

from ablations.probes.dependence import (
    Future,
    Mixing,
    Permutation,
    future_gap,
    mixing_gap,
    others,
    permutation_gap,
)
from ablations.probes.formulas import (
    OFFSETS,
    PRINTED,
    SURE,
    TIMES,
    WORDS,
    Forms,
    Offset,
    Penalty,
    Reach,
    Worked,
    attended,
    loss_at,
)
from ablations.probes.share import Structure, sizes
from model.batch import BOS
from model.build import build

CPU = torch.device("cpu")


def read(probe: Any, config: dict[str, Any], task: Any = TEXT) -> Any:
    (measurement,) = probe().measure(config, task, CPU).measurements
    return measurement.value


@pytest.mark.parametrize("example", PRINTED)
def test_a_gap_to_the_slide_is_that_of_a_softmax_by_hand(example: str) -> None:
    products, printed = PRINTED[example]
    measurements = Worked().measure({}, TEXT, CPU).measurements
    gaps = {(r.coordinates["example"], r.coordinates["scores"]): r.value for r in measurements}
    for word, scale, root in (("scaled", "sqrt_d_head", 8.0), ("raw", "none", 1.0)):
        powers = [math.exp((product - max(products)) / root) for product in products]
        weights = [power / sum(powers) for power in powers]
        expected = max(abs(one - two) for one, two in zip(weights, printed, strict=True))
        assert gaps[example, word] == pytest.approx(expected, rel=1e-12)
        assert attended(products, scale).tolist() == pytest.approx(weights)


PAPERS = {
    # words, positions, width, blocks of a stack, inside of the feed-forward
    "bert-base": (30522, 512, 768, 12, 3072),
    "gpt2": (50257, 1024, 768, 12, 3072),
    "bart-base": (50265, 1024, 768, 6, 3072),
    "transformer-base": (37000, None, 512, 6, 2048),
    "transformer-big": (37000, None, 1024, 6, 4096),
    "t5-small": (32128, None, 512, 6, 2048),
    "tinyllama": (32000, None, 2048, 22, 5632),
}
OF = ("words", "positions", "width", "blocks", "inner")


def test_published_models_are_as_large_as_their_papers_say() -> None:
    measurements = Structure().measure(transformer(), TEXT, CPU).measurements
    found = {(r.coordinates["preset"], r.coordinates["of"]): r.value for r in measurements}
    assert {name: tuple(found[name, of] for of in OF) for name in PAPERS} == PAPERS


def test_appended_positions_count_in_the_width() -> None:
    position = {"name": "learned", "join": "concat", "width": 3}
    written = transformer(d_model=8, depth=2, max_len=9, position=position)["model"]
    model: Any = build(written, None, 13, 0)
    assert model.decoder.embedding.tokens.weight.shape == (13, 5)
    assert tuple(sizes(model.decoder)[of] for of in OF) == (13, 9, 8, 2, 32)


def turning(smoothing: float, over: str = "all") -> dict[str, float | None]:
    config = {"train": {"label_smoothing": smoothing, "label_smoothing_over": over}}
    return {r.metric: r.value for r in Penalty().measure(config, TEXT, CPU).measurements}


@pytest.mark.parametrize("smoothing", [0.01, 0.1, 0.5])
@pytest.mark.parametrize("over", ["all", "other"])
def test_the_loss_turns_where_the_probability_is_its_target(smoothing: float, over: str) -> None:
    target = 1 - smoothing + (smoothing / WORDS if over == "all" else 0.0)

    def by_hand(p: float) -> float:
        """−Σ q log p, the label with `target` of q and the others with the rest."""
        return -target * math.log(p) - (1 - target) * math.log((1 - p) / (WORDS - 1))

    found = turning(smoothing, over)
    assert found["turning_probability"] == pytest.approx(target, abs=1e-6)
    assert found["rise"] == pytest.approx(by_hand(SURE) - by_hand(target), rel=1e-6)
    for p in (0.2, 0.9, SURE):
        assert loss_at(p, smoothing, over) == pytest.approx(by_hand(p), rel=1e-9)


def test_without_smoothing_the_loss_never_turns() -> None:
    assert turning(0.0)["turning_probability"] == 1


def test_what_is_looked_up_ends_at_max_len_and_what_is_computed_does_not() -> None:
    for kind, task in (("decoder", TEXT), ("encoder_decoder", PAIRS)):
        for position, past in [("learned", 0), ("binary", 0), ("sinusoidal", 1), ("alibi", 1)]:
            config = transformer(kind=kind, max_len=9, position={"name": position})
            assert read(Reach, config, task) == past


def test_every_path_is_the_formula_to_rounding() -> None:
    for path, kind, task in [
        ("explicit", "decoder", TEXT), ("row", "encoder_decoder", PAIRS),
        ("loop", "decoder", TEXT), ("fused", "encoder_decoder", PAIRS),
    ]:  # fmt: skip
        options = {"kind": kind, "path": {"name": path}, "depth": 2}
        assert read(Forms, transformer(**options), task) < 1e-12
        assert read(Forms, transformer(**options, scale={"name": "none"}), task) > 1e-3


# A step of positions as a linear map.

WIDTH = 8


def residuals(task: Any = TEXT, **changes: Any) -> dict[Any, float]:
    config = transformer(**{"max_len": 512, **changes})
    measurements = Offset().measure(config, task, CPU).measurements
    return {r.coordinates["offset"]: float(r.value or 0.0) for r in measurements}


@pytest.mark.parametrize("width", [8, 64, 128])
def test_sinusoids_leave_nothing_over_and_learned_vectors_almost_all(width: int) -> None:
    settings = {"d_model": width, "max_len": 2048}
    assert max(residuals(position={"name": "sinusoidal"}, **settings).values()) < 1e-12
    # Of random numbers a map of W columns explains W of T.
    expected = pytest.approx(math.sqrt(1 - 1 / TIMES), rel=0.1)
    assert residuals(position={"name": "learned"}, **settings) == dict.fromkeys(OFFSETS, expected)


def test_the_worse_of_two_stacks_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"kind": "encoder_decoder", "position": {"name": "sinusoidal"}}
    assert max(residuals(PAIRS, **given).values()) < 1e-12

    def uneven(*words: Any) -> Any:
        model = build(*words)
        scheme = model.decoder.embedding.position  # type: ignore[union-attr]
        vars(scheme)["vectors"] = lambda at_T: at_T[:, None].double() ** 2
        return model

    monkeypatch.setattr("ablations.measurement.build", uneven)
    assert min(residuals(PAIRS, **given).values()) > 1e-3


def test_a_table_of_too_few_positions_is_refused() -> None:
    needed = TIMES * WIDTH + max(OFFSETS)
    assert residuals(position={"name": "learned"}, max_len=needed)
    with pytest.raises(ValueError, match=rf"set model\.max_len to at least {needed}"):
        residuals(position={"name": "learned"}, max_len=needed - 1)


ROUNDING, SEEN = 1e-12, 1e-3


# Toys: a token is a number, and so is the answer at it.

X = torch.tensor([[3, 5, 2, 9]])
OTHER = torch.tensor([[4, 8, 3, 2]])  # by 1, 3, 1 and −7


def itself(x_BT: Tensor) -> Tensor:
    return x_BT[..., None].double()


def summed(x_BT: Tensor) -> Tensor:
    """The sum of all up to here."""
    return itself(x_BT).cumsum(1)


def one_ahead(x_BT: Tensor) -> Tensor:
    return itself(x_BT).roll(-1, 1)


def placed(x_BT: Tensor) -> Tensor:
    """A token and a quarter for each place before it."""
    return itself(x_BT) + torch.arange(x_BT.shape[1])[:, None] / 4


def test_what_knows_its_place_is_off_by_how_far_it_was_moved() -> None:
    order = torch.tensor([3, 1, 0, 2])  # the last comes first, three places away
    assert permutation_gap(placed, X, order) == 3 / 4
    assert permutation_gap(placed, X, torch.arange(4)) == 0


def test_a_leak_of_the_future_is_as_large_as_the_change_of_what_leaks() -> None:
    assert future_gap(itself, X, OTHER) == future_gap(summed, X, OTHER) == 0
    assert future_gap(one_ahead, X, OTHER) == 7
    assert future_gap(lambda x: itself(x).flip(1), X, OTHER) == 7  # the first reads the last


def test_a_token_mixes_with_others_by_as_much_as_they_change_its_answer() -> None:
    assert mixing_gap(itself, X, OTHER) == mixing_gap(placed, X, OTHER) == 0
    assert mixing_gap(one_ahead, X, OTHER) == 7
    assert mixing_gap(summed, X, OTHER) == 1 + 3 + 1  # at the last, of the three before it


def test_every_other_token_is_another_token_of_the_vocabulary() -> None:
    draw = torch.Generator().manual_seed(0)
    for size in (3, 4, 13):
        x_1T = torch.randint(BOS, size, (1, 200), generator=draw)
        other_1T = others(x_1T, size, draw)
        assert (x_1T != other_1T).all()
        assert set(other_1T.unique().tolist()) == set(range(BOS, size))


# Models.


def test_an_encoder_is_blind_to_order_without_positions_and_without_a_mask() -> None:
    blind: dict[str, Any] = {"kind": "encoder", "position": {"name": "none"}, "depth": 2}
    assert read(Permutation, transformer(**blind), PAIRS) < ROUNDING
    for change in (
        {"position": {"name": "sinusoidal"}},
        {"position": {"name": "alibi"}},
        {"causal_encoder": True},
        {"mixer": {"name": "lstm"}},
    ):
        assert read(Permutation, transformer(**{**blind, **change}), PAIRS) > SEEN


@pytest.mark.parametrize(("kind", "task"), [("decoder", TEXT), ("encoder_decoder", PAIRS)])
def test_minus_infinity_hides_the_future_and_zero_does_not(kind: str, task: Any) -> None:
    assert read(Future, transformer(kind=kind), task) < ROUNDING
    assert read(Future, transformer(kind=kind, mask={"name": "zero"}), task) > SEEN
    assert read(Future, transformer(kind=kind, causal_decoder=False), task) > SEEN


def test_tokens_mix_in_the_mixer_alone() -> None:
    for mixer, mixes in [
        ({"name": "none"}, False),
        ({"name": "convolution", "kernel": 1}, False),  # a token, and no neighbour
        ({"name": "attention"}, True),
        ({"name": "rnn"}, True),
    ]:
        for kind, task in (("decoder", TEXT), ("encoder", PAIRS)):
            gap = read(Mixing, transformer(mixer, kind=kind, depth=2), task)
            assert gap > SEEN if mixes else gap < ROUNDING
