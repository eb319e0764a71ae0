"""One decoder, as four libraries write it, with equal weights to train.

B: sequences, T: positions, V: vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.batch import Batch
from model.build import build

VOCABULARY = 256


@dataclass(frozen=True)
class Size:
    """Width × blocks at a length and a batch."""

    d_model: int
    depth: int
    n_heads: int
    length: int
    batch: int

    def __str__(self) -> str:
        return f"{self.d_model}x{self.depth}, n {self.length}, batch {self.batch}"


SIZES = (Size(64, 2, 4, 32, 64), Size(128, 4, 4, 128, 32), Size(256, 4, 8, 512, 4))

Logits = Callable[[Tensor], Tensor]


@dataclass
class Peer:
    """A model, how it is asked for logits, and the settings that make it fast."""

    model: nn.Module
    logits: Logits
    settings: str

    @property
    def parameters(self) -> int:
        return sum(parameter.numel() for parameter in self.model.parameters())


def built_here(choice: dict[str, Any], settings: str) -> Peer:
    model = build(choice, None, VOCABULARY, seed=0)
    return Peer(model, lambda tokens_BT: model(Batch(tokens_BT, tokens_BT)), settings)


def ours(size: Size) -> Peer:
    sizes = {"d_model": size.d_model, "depth": size.depth, "n_heads": size.n_heads}
    choice = {
        "name": "transformer", "kind": "decoder", **sizes, "max_len": size.length,
        "tied": "output", "embedding_scale": False, "position": "learned", "feedforward": "gelu",
        "head": {"name": "tokens", "bias": False}, "init": "normal",
    }  # fmt: skip
    return built_here(choice, "path fused")


class TorchDecoder(nn.Module):
    """nn.TransformerEncoder with a causal mask, learned positions and a tied head."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, size.d_model)
        self.places = nn.Embedding(size.length, size.d_model)
        layer = nn.TransformerEncoderLayer(
            size.d_model, size.n_heads, 4 * size.d_model, dropout=0.0, activation="gelu",
            batch_first=True, norm_first=True,
        )  # fmt: skip
        norm = nn.LayerNorm(size.d_model)
        self.stack = nn.TransformerEncoder(layer, size.depth, norm, enable_nested_tensor=False)
        mask = nn.Transformer.generate_square_subsequent_mask(size.length)
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, tokens_BT: Tensor) -> Tensor:
        at_T = torch.arange(tokens_BT.shape[1], device=tokens_BT.device)
        x = self.tokens(tokens_BT) + self.places(at_T)
        mask = self.get_buffer("mask")[: len(at_T), : len(at_T)]
        return self.stack(x, mask=mask, is_causal=True) @ self.tokens.weight.T


def torch_encoder(size: Size) -> Peer:
    model = TorchDecoder(size)
    return Peer(model, model, "norm_first, is_causal, no nested tensors")


def x_transformers(size: Size) -> Peer:
    from x_transformers import Decoder, TransformerWrapper

    layers = Decoder(
        dim=size.d_model, depth=size.depth, heads=size.n_heads,
        attn_dim_head=size.d_model // size.n_heads, attn_flash=True,
    )  # fmt: skip
    model = TransformerWrapper(
        num_tokens=VOCABULARY, max_seq_len=size.length, attn_layers=layers, tie_embedding=True
    )
    return Peer(model, model, "attn_flash")


def hugging_face(size: Size) -> Peer:
    from transformers.models.gpt2 import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=VOCABULARY, n_positions=size.length, n_embd=size.d_model, n_layer=size.depth,
        n_head=size.n_heads, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        attn_implementation="sdpa", bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    model = GPT2LMHeadModel(config)
    return Peer(model, lambda tokens: model(tokens, use_cache=False).logits, "sdpa, no cache")


def lstm(size: Size) -> Peer:
    choice = {"name": "recurrent", "kind": "decoder", "d_model": size.d_model, "depth": size.depth}
    return built_here(choice, "library kernel, equal width")


PEERS = {
    "ours": ours,
    "nn.TransformerEncoder": torch_encoder,
    "x-transformers": x_transformers,
    "Hugging Face GPT-2": hugging_face,
    "our LSTM": lstm,
}


def training_step(peer: Peer, tokens_BT: Tensor) -> Callable[[], None]:
    """Forward, backward and update; the same loss, optimizer and data for all."""
    optimizer = torch.optim.AdamW(peer.model.parameters(), lr=1e-4, fused=True)
    inputs_BT, labels_BT = tokens_BT[:, :-1].contiguous(), tokens_BT[:, 1:].contiguous()
    peer.model.train()

    def step() -> None:
        logits_BTV = peer.logits(inputs_BT)
        loss = F.cross_entropy(logits_BTV.reshape(-1, VOCABULARY), labels_BT.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def forward_pass(peer: Peer, tokens_BT: Tensor) -> Callable[[], None]:
    inputs_BT = tokens_BT[:, :-1].contiguous()

    def forward() -> None:
        peer.model.eval()
        with torch.inference_mode():
            peer.logits(inputs_BT)
        peer.model.train()

    return forward
