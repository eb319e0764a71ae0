"""With equal weights, the numbers of torch.nn.Transformer."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from model.batch import Batch, positions
from model.build import build
from model.mixer import Context

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
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.3)
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


@pytest.mark.parametrize("norm_first", [True, False], ids=["pre", "post"])
@pytest.mark.parametrize("path", ["explicit", "fused"])
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-9), (torch.float32, 1e-4)], ids=["double", "single"]
)
def test_equal_weights_give_the_numbers_of_torch(
    norm_first: bool, path: str, dtype: torch.dtype, tolerance: float
) -> None:
    reference, model = theirs(norm_first).to(dtype), ours(norm_first, path).to(dtype)
    weights = translated(reference.state_dict(), norm_first)
    missing, unexpected = model.load_state_dict(weights, strict=False)
    assert not unexpected
    assert {name.split(".")[1] for name in missing} == {"embedding", "project"}  # and the head

    source, source_lengths, source_padding = padded(SOURCE_LENGTHS, 11, seed=1)
    inputs, lengths, padding = padded(LENGTHS, 9, seed=2)
    memory = model.encode(source, source_lengths)
    context = Context(
        positions(inputs.shape[1], inputs), causal=True, lengths=lengths,
        memory=memory, memory_lengths=source_lengths,
    )  # fmt: skip
    stream, _ = model.decoder(inputs, context)

    source_vectors = model.encoder.embedding.tokens(source)
    expected_memory = reference.encoder(source_vectors, src_key_padding_mask=source_padding)
    expected = reference(
        source_vectors,
        model.decoder.embedding.tokens(inputs),
        tgt_mask=torch.ones(inputs.shape[1], inputs.shape[1], dtype=torch.bool).triu(1),
        src_key_padding_mask=source_padding,
        tgt_key_padding_mask=padding,
        memory_key_padding_mask=source_padding,
    )
    close = {"rtol": tolerance, "atol": tolerance}
    torch.testing.assert_close(memory[~source_padding], expected_memory[~source_padding], **close)
    torch.testing.assert_close(stream[~padding], expected[~padding], **close)

    logits = model(Batch(inputs, inputs, lengths, source, source_lengths))
    torch.testing.assert_close(logits[~padding], model.head.project(expected)[~padding], **close)
