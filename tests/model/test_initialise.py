"""How first values are drawn, and that equal names get equal numbers."""

from __future__ import annotations

import math

import pytest
import torch
from slow_formulas import assert_equals, random
from slow_formulas import cross_entropy as by_hand
from torch import nn

from model.batch import BOS, EOS, IGNORE, PAD, Batch, cross_entropy
from model.build import build
from model.cells import LSTM
from model.init import INIT, initialise, logical_parameters


def drawn(choice: object, role: str, shape: tuple[int, ...]) -> torch.Tensor:
    return getattr(INIT.build(choice), role)(shape, torch.Generator().manual_seed(0))


def test_xavier_weights_are_uniform_up_to_the_bound_of_glorot() -> None:
    values, bound = drawn("xavier", "weight", (300, 200)), math.sqrt(6 / 500)
    assert values.abs().max() <= bound
    assert values.abs().max() > 0.999 * bound
    assert values.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.02)
    assert values.mean().item() == pytest.approx(0, abs=0.02 * bound)


NORMAL = [  # (rule, role, deviation): weights are 300 × 200, so 200 numbers come in
    ("xavier", "embedding", 200**-0.5),
    *(({"name": "normal", "std": std}, role, std)
      for std in (0.02, 0.5) for role in ("weight", "embedding")),
    ("unit_variance", "weight", 200**-0.5),
    ("unit_variance", "embedding", 1.0),
]  # fmt: skip


def test_normal_values_have_the_stated_deviation() -> None:
    for choice, role, std in NORMAL:
        values = drawn(choice, role, (300, 200))
        assert values.std().item() == pytest.approx(std, rel=0.02)
        assert values.mean().item() == pytest.approx(0, abs=0.02 * std)
        assert (values.abs() > 2 * std).double().mean().item() == pytest.approx(0.0455, abs=0.005)


def test_projections_that_are_computed_jointly_are_drawn_apart() -> None:
    choice = {"name": "transformer", "d_model": 64, "n_heads": 2, "depth": 1}
    model = build(choice, None, 9, seed=0)
    views = {name: view for name, view, _ in logical_parameters(model)}
    bound = math.sqrt(6 / (64 + 64))
    joint = model.decoder.blocks[0].mixer.project.weight
    for name, rows in zip(("query", "key", "value"), joint.split(64), strict=True):
        view = views[f"decoder.blocks.0.mixer.project.{name}.weight"]
        assert torch.equal(view, rows)
        assert 0.99 * bound < view.abs().max() <= bound


def test_a_forget_gates_biases_sum_to_what_was_asked_for_and_no_other_moves() -> None:
    for written, place in [
        ({"name": "recurrent", "d_model": 6}, "cell"),
        ({"name": "transformer", "d_model": 8}, "mixer"),
        ({"name": "transformer", "d_model": 8, "kind": "encoder"}, "mixer"),
    ]:
        plain, opened = (
            build({**written, place: {"name": "lstm", "forget_bias": bias}}, 9, 9, seed=0)
            for bias in (0.0, -0.5)
        )
        layers = [module for module in opened.modules() if isinstance(module, LSTM)]
        assert layers
        for layer in layers:
            size = layer.hidden_size
            total = (layer.bias_ih_l0 + layer.bias_hh_l0).tolist()
            assert total == [0.0] * size + [-0.5] * size + [0.0] * (2 * size)
        values = opened.state_dict()
        for name, value in plain.state_dict().items():
            assert torch.equal(value, values[name]) == ("bias_ih_l0" not in name)


def test_a_value_depends_on_the_seed_and_on_the_name_of_its_parameter() -> None:
    def linear(name: str, seed: int) -> torch.Tensor:
        model = nn.ModuleDict({name: nn.Linear(3, 3)})
        initialise(model, INIT.build("normal"), seed)
        return model[name].weight.data

    torch.testing.assert_close(linear("a", 0), linear("a", 0), rtol=0, atol=0)
    assert not torch.equal(linear("a", 0), linear("b", 0))
    assert not torch.equal(linear("a", 0), linear("a", 1))


def test_a_tied_weight_is_drawn_once_under_the_name_of_the_embedding() -> None:
    models = [
        build({"name": "transformer", "d_model": 8, "tied": tied}, None, 9, seed=0)
        for tied in ("output", "free")
    ]
    names = [name for name, _, _ in logical_parameters(models[0])]
    assert "head.project.weight" not in names
    tables = [model.decoder.embedding.tokens.weight for model in models]
    torch.testing.assert_close(*tables, rtol=0, atol=0)


def test_a_parameter_without_a_role_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match="Bilinear declares no role for its parameter 'weight'"):
        initialise(nn.Bilinear(2, 2, 2), INIT.build("normal"), 0)


def test_learned_positions_start_at_the_size_that_is_asked_for() -> None:
    for init in ("xavier", {"name": "normal", "std": 0.02}, "unit_variance"):
        for std in (0.02, 0.7, 1.0):
            written = {"name": "transformer", "d_model": 256, "depth": 1, "init": init,
                       "position": {"name": "learned", "std": std}}  # fmt: skip
            table = build(written, None, 9, seed=0).decoder.embedding.position.table.weight
            assert table.square().mean().sqrt().item() == pytest.approx(std, rel=0.02)


LABELS = [[3, IGNORE, 0], [IGNORE, 4, 1]]


def test_the_loss_is_summed_over_the_labels_that_count() -> None:
    for over in ["all", "other"]:
        for smoothing in [0.0, 0.1, 0.7]:
            logits_BTV = random(2, 3, 5)
            expected = sum(
                by_hand(logits, label, smoothing, over)
                for rows, labels in zip(logits_BTV.tolist(), LABELS, strict=True)
                for logits, label in zip(rows, labels, strict=True)
                if label != IGNORE
            )
            assert_equals(
                cross_entropy(logits_BTV, torch.tensor(LABELS), smoothing, over), expected
            )


def test_one_class_a_sequence_is_scored_like_one_label_a_token() -> None:
    logits_BC = random(3, 5)
    expected = sum(
        by_hand(row, label) for row, label in zip(logits_BC.tolist(), [4, 0, 2], strict=True)
    )
    assert_equals(cross_entropy(logits_BC, torch.tensor([4, 0, 2])), expected)


TARGET = torch.tensor([[BOS, 5, 6, EOS], [BOS, 7, EOS, PAD]])


def test_a_shifted_batch_predicts_each_next_token() -> None:
    batch = Batch.shifted(TARGET)
    assert batch.inputs is not None
    assert batch.inputs.tolist() == [[BOS, 5, 6], [BOS, 7, EOS]]
    assert batch.labels.tolist() == [[5, 6, EOS], [7, EOS, PAD]]
    assert batch.lengths is None
    assert batch.tokens == 6


def test_padding_is_no_label_and_no_input() -> None:
    source, source_lengths = torch.tensor([[4, 4], [4, 0]]), torch.tensor([2, 1])
    batch = Batch.shifted(TARGET, torch.tensor([4, 3]), source, source_lengths)
    assert batch.labels.tolist() == [[5, 6, EOS], [7, EOS, IGNORE]]
    assert batch.lengths is not None
    assert batch.lengths.tolist() == [3, 2]
    assert batch.source is source
    assert batch.source_lengths is source_lengths
    assert batch.tokens == 5
