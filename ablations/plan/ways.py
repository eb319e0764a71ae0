"""Which trials can be trained as one model (`--pack N`)."""

from __future__ import annotations

from ablations.facts import model_facts
from ablations.plan.wanted import Want


def can_pack(want: Want) -> str | None:
    """Why a trial cannot be packed with other seeds, in a word; None if it can."""
    from ablations.train.optimizer import OPTIMIZER

    if not want.trained:
        return "untrained"
    model, train = want.config["model"], want.config["train"]
    if any(share for option, share in model.items() if option.endswith("dropout")):
        return "dropout"  # whose random numbers would be others
    if train["compile"]:
        return "compiled"
    modules = model_facts(want.frozen["model"], want.frozen["task"]).modules
    homes = {name.split(".")[0] for name in modules}
    homes |= {OPTIMIZER.component(train["optimizer"]["name"]).__module__.split(".")[0]}
    if homes - {"torch", "model", "ablations"}:
        return "own"  # nobody knows whether its lanes stay apart
    return None
