"""What Hugging Face calls the weights of BART, and of Marian, whose code is a copy of BART's."""

from __future__ import annotations


def stack(side: str, sublayers: tuple[str, ...]) -> dict[str, str | tuple[str, ...]]:
    here, there = f"{side}.blocks.*", f"model.{side}.layers.*"
    own, cross = f"{there}.self_attn", f"{there}.encoder_attn"
    norms = {
        f"{here}.residual.norms.{index}": f"{there}.{name}_layer_norm"
        for index, name in enumerate(sublayers)
    }
    return norms | {
        f"{side}.embedding.position.table": f"model.{side}.embed_positions",
        f"{side}.embedding.norm": f"model.{side}.layernorm_embedding",
        f"{here}.mixer.project": (f"{own}.q_proj", f"{own}.k_proj", f"{own}.v_proj"),
        f"{here}.mixer.out": f"{own}.out_proj",
        f"{here}.cross.project": f"{cross}.q_proj",
        f"{here}.cross.project_memory": (f"{cross}.k_proj", f"{cross}.v_proj"),
        f"{here}.cross.out": f"{cross}.out_proj",
        f"{here}.feedforward.up": f"{there}.fc1",
        f"{here}.feedforward.down": f"{there}.fc2",
    }


TABLE = {
    "encoder.embedding.tokens": "model.shared",
    **stack("encoder", ("self_attn", "final")),
    **stack("decoder", ("self_attn", "encoder_attn", "final")),
}


def sizes(d_model: int, depth: int, n_heads: int, d_inside: int) -> dict[str, int]:
    """The sizes of both stacks, as the library's configuration has them."""
    each = {"layers": depth, "attention_heads": n_heads, "ffn_dim": d_inside}
    both = {f"{side}_{name}": n for name, n in each.items() for side in ("encoder", "decoder")}
    return {"d_model": d_model, **both}
