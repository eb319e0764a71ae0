"""With equal weights, the numbers and the gradients of torch.nn.Transformer."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.batch import Batch
from model.build import build

D_MODEL, N_HEADS, DEPTH, FEEDFORWARD = 12, 3, 2, 30
SOURCE_LENGTHS, LENGTHS = [5, 2, 4], [3, 6, 1]

# Ours ← theirs. The rows of query, key and value stand in the same order in both.
ATTENTION = {
    "project.weight": "in_proj_weight",
    "project.bias": "in_proj_bias",
    "out.weight": "out_proj.weight",
    "out.bias": "out_proj.bias",
}
AROUND = {
    "feedforward.up": "linear1",
    "feedforward.down": "linear2",
    "residual.norms.0": "norm1",
    "residual.norms.1": "norm2",
    "residual.norms.2": "norm3",
}
OURS_ALONE = {
    "encoder.embedding.tokens.weight",
    "decoder.embedding.tokens.weight",
    "head.project.weight",
    "head.project.bias",
}


def theirs(norm_first: bool) -> nn.Transformer:
    sizes: dict[str, Any] = {
        "d_model": D_MODEL, "nhead": N_HEADS, "dim_feedforward": FEEDFORWARD, "dropout": 0.0,
        "batch_first": True, "norm_first": norm_first,
    }  # fmt: skip

    def last() -> nn.Module | None:  # as ours: post-norm has already normalised
        return nn.LayerNorm(D_MODEL) if norm_first else None

    encoder = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(**sizes), DEPTH, last(), enable_nested_tensor=False
    )
    decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(**sizes), DEPTH, last())
    model = nn.Transformer(
        D_MODEL, N_HEADS, custom_encoder=encoder, custom_decoder=decoder, batch_first=True
    )
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            around = 1.0 if "norm" in name and name.endswith("weight") else 0.0  # or all fades
            parameter.copy_(around + torch.randn(parameter.shape, generator=generator) * 0.3)
    return model


def ours(norm_first: bool, path: str) -> Any:
    choice = {
        "name": "transformer", "kind": "encoder_decoder", "d_model": D_MODEL, "n_heads": N_HEADS,
        "depth": DEPTH, "position": "none", "embedding_scale": False, "path": path,
        "residual": "pre" if norm_first else "post",
        "feedforward": {"name": "relu", "ratio": FEEDFORWARD / D_MODEL},
    }  # fmt: skip
    return build(choice, 11, 9, seed=0)


def translated(weights: dict[str, Tensor], norm_first: bool) -> dict[str, Tensor]:
    """The other library's weights under our names."""
    renamed: dict[str, Tensor] = {}
    for side in ("encoder", "decoder"):
        for layer in range(DEPTH):
            here, there = f"{side}.blocks.{layer}", f"{side}.layers.{layer}"
            for mine, other in ATTENTION.items():
                renamed[f"{here}.mixer.{mine}"] = weights[f"{there}.self_attn.{other}"]
                if side == "decoder":
                    renamed[f"{here}.cross.{mine}"] = weights[f"{there}.multihead_attn.{other}"]
            for kind in ("weight", "bias"):
                for mine, other in AROUND.items():
                    if f"{there}.{other}.{kind}" in weights:
                        renamed[f"{here}.{mine}.{kind}"] = weights[f"{there}.{other}.{kind}"]
                if side == "decoder":  # the query asks the stream, key and value the memory
                    joint = renamed.pop(f"{here}.cross.project.{kind}")
                    renamed[f"{here}.cross.project.{kind}"] = joint[:D_MODEL]
                    renamed[f"{here}.cross.project_memory.{kind}"] = joint[D_MODEL:]
        if norm_first:
            for kind in ("weight", "bias"):
                renamed[f"{side}.norm.{kind}"] = weights[f"{side}.norm.{kind}"]
    return renamed


def padded(lengths: list[int], size: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(3, size, (len(lengths), max(lengths)), generator=generator)
    real = torch.tensor(lengths)
    return tokens, real, torch.arange(max(lengths)) >= real[:, None]


SOURCE, SOURCE_REAL, SOURCE_PADDING = padded(SOURCE_LENGTHS, 11, seed=1)
INPUTS, REAL, PADDING = padded(LENGTHS, 9, seed=2)


def pair(norm_first: bool, path: str) -> tuple[nn.Transformer, Any]:
    """Theirs and ours with the same weights; embedding and head are ours alone."""
    reference, model = theirs(norm_first).double(), ours(norm_first, path).double()
    weights = translated(reference.state_dict(), norm_first)
    missing, unexpected = model.load_state_dict(weights, strict=False)
    assert not unexpected
    assert set(missing) == OURS_ALONE
    return reference, model


def their_stream(reference: nn.Transformer, model: Any) -> Tensor:
    """Of the target, from our embeddings."""
    length = INPUTS.shape[1]
    return reference(
        model.encoder.embedding.tokens(SOURCE),
        model.decoder.embedding.tokens(INPUTS),
        tgt_mask=torch.ones(length, length, dtype=torch.bool).triu(1),
        src_key_padding_mask=SOURCE_PADDING,
        tgt_key_padding_mask=PADDING,
        memory_key_padding_mask=SOURCE_PADDING,
    )


def assert_same(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("norm_first", [True, False], ids=["pre", "post"])
@pytest.mark.parametrize("path", ["explicit", "fused"])
def test_equal_weights_give_the_logits_the_loss_and_the_gradients_of_torch(
    norm_first: bool, path: str
) -> None:
    reference, model = pair(norm_first, path)
    batch = Batch(INPUTS.roll(-1, 1), INPUTS, REAL, SOURCE, SOURCE_REAL)
    ours = model(batch)[~PADDING]
    loss = F.cross_entropy(ours, batch.labels[~PADDING])
    loss.backward()

    logits = model.head.project(their_stream(reference, model))[~PADDING]
    expected = F.cross_entropy(logits, batch.labels[~PADDING])
    assert_same(ours, logits)
    assert_same(loss, expected)

    shared = {name: model.get_parameter(name) for name in OURS_ALONE}
    named = {**dict(reference.named_parameters()), **shared}
    gradients = dict(zip(named, torch.autograd.grad(expected, list(named.values())), strict=True))
    under_our_names = translated(gradients, norm_first)
    under_our_names |= {name: gradients[name] for name in shared}
    assert under_our_names.keys() == dict(model.named_parameters()).keys()
    for name, gradient in under_our_names.items():
        largest = gradient.abs().max()
        assert largest > 0, name
        assert_same(model.get_parameter(name).grad / largest, gradient / largest)
