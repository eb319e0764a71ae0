"""Parts keep the contracts beside other parts: each position scheme beside each mixer, the other
families in turn."""

from __future__ import annotations

from itertools import cycle, product
from random import Random

import pytest
import torch
from contract_checks import (
    Check,
    gives_finite_logits,
    ignores_padding,
    never_looks_ahead,
    steps_as_it_runs,
    survives_storage,
    treats_each_sequence_alone,
)
from contract_subjects import KINDS, TINY, answers, combined, sample
from task_subjects import failures

from model.attention import MASK, PATH, SCALE, SIMILARITY
from model.build import build
from model.config import ConfigError
from model.feedforward import FEEDFORWARD
from model.mixers import MIXER
from model.mixers.attention import Heads
from model.positions import POSITION
from model.residual import NORM, RESIDUAL

Row = dict[str, str]
OTHERS = {
    "kind": sorted(KINDS),
    **{f.word: sorted(f.components) for f in (NORM, RESIDUAL, FEEDFORWARD, SCALE, SIMILARITY)},
}


def rows() -> list[Row]:
    """Those of a third of the pairs, which hold every part three times or more, come first."""
    decks = {axis: cycle(Random(axis).sample(parts, len(parts))) for axis, parts in OTHERS.items()}
    pairs = list(
        product(enumerate(sorted(POSITION.components)), enumerate(sorted(MIXER.components)))
    )
    pairs.sort(key=lambda pair: (pair[0][0] - pair[1][0]) % 3)
    return [
        {"position": position, "mixer": mixer, **{axis: next(deck) for axis, deck in decks.items()}}
        for (_, position), (_, mixer) in pairs
    ]


ROWS = rows()
EMPTY = {"mixer": "none", "feedforward": "none", "residual": "parallel"}
CORNERS: list[Row] = [  # more than two parts that leave a parameter idle between them
    {**ROWS[0], "norm": "layer", "kind": kind, **parts}
    for kind in sorted(KINDS)
    for parts in (EMPTY, {"position": "t5", "mixer": "none"}, {"position": "shaw", "mixer": "gru"})
]
OF_ALL: tuple[Check, ...] = (
    gives_finite_logits,
    ignores_padding,
    treats_each_sequence_alone,
    survives_storage,
)
FIRST = len(ROWS) // 3  # tried at every commit; the others in the soak tests
TRIED = [
    *ROWS[:FIRST],
    *CORNERS,
    *(pytest.param(row, marks=pytest.mark.soak) for row in ROWS[FIRST:]),
]
OF_DECODERS: tuple[Check, ...] = (never_looks_ahead, steps_as_it_runs)


def idle(row: Row, parameter: str) -> bool:
    """The parameters that nothing can reach, by rule: there are no others."""
    if "position.table" in parameter and row["position"] in ("t5", "shaw"):
        return not issubclass(
            MIXER.component(row["mixer"]), Heads
        )  # a bias for scores, and a mixer without them
    if "residual.norms" in parameter and row["residual"] == "parallel":
        nothing_own = row["mixer"] == row["feedforward"] == "none"
        return nothing_own and not ("decoder." in parameter and row["kind"] == "encoder_decoder")
    return False


# No combination of these parts is refused: a ConfigError here is a failure.
@pytest.mark.parametrize("row", TRIED, ids=lambda row: "-".join(row.values()))
def test_parts_keep_the_contracts_beside_each_other(row: Row) -> None:
    subject = combined(row)
    assert not failures(OF_ALL + (OF_DECODERS if subject.decodes else ()), subject)
    model = subject.fresh()
    squares = [answer.square().sum() for answer in answers(model, sample(subject))]
    torch.stack(squares).sum().backward()
    for name, parameter in model.named_parameters():
        assert (parameter.grad is None) == idle(row, name), (
            f"whether a gradient reaches {name}: if the parts beside it leave it no work, say "
            "so in idle() of tests/contracts/test_combinations.py"
        )
        assert parameter.grad is None or parameter.grad.isfinite().all(), name


def test_only_a_mask_that_hides_nothing_is_refused_and_only_where_it_cannot_be() -> None:
    refused = set()
    for path, mask, mixer in product(PATH.components, MASK.components, MIXER.components):
        written = {"name": "transformer", **TINY, "path": path, "mask": mask, "mixer": mixer}
        try:
            build(written, None, 9, seed=None)
        except ConfigError:
            refused.add((path, mask, mixer))
    fused = {("fused", "zero", mixer) for mixer in MIXER.components}
    assert refused == fused | {(path, "zero", "window") for path in PATH.components}
